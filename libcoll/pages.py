# SPDX-License-Identifier: MIT
"""Writes man pages of section 3 from the public headers, a page a function.

Usage: pages.py FOLDER VERSION HEADER...

The headers are the only source. Lines without a blank one between them belong
together: a comment, the types below it and the functions below those, which
share a page. A comment that stands alone and says what "holds for each" is a
part of the later pages of its header whose functions take a request. FOLDER is
made anew; libcoll.3 has what coll.h says of all.
"""
import os
import re
import shutil
import sys

STATUS = re.compile(r'\b(?:COLL_ERR_)?(INVALID|MEMORY|UNSUPPORTED|PEER|SYSTEM|'
                    r'TIMEOUT|ABORTED|MISMATCH|BUSY)\b')
FUNCTION = re.compile(r'(?<!typedef )^(?P<type>[\w ]*?[ *]+)(?P<name>coll_\w+)'
                      r'\((?P<parameters>[^;]*?)\);', re.M | re.S)
LIKE = re.compile(r'(?:[Ff]ails like|said of|The same|Like|What)\s+'
                  r'(coll_\w+)\(\)')


class Paragraph:
    """What stands together in a header."""

    def __init__(self, header, text):
        self.header = header
        comment = re.match(r'/\*(.*?)\*/\s*', text, re.S)
        self.comment = plain(comment.group(1)) if comment else []
        self.code = text[comment.end():] if comment else text
        self.functions = [
            (m.group('name'), m.group('type').strip(), m.group(0))
            for m in FUNCTION.finditer(self.without_types())]

    def without_types(self):
        return re.sub(r'typedef[^;{]*(\{.*?\}[^;]*)?;|^#[^\n]*', '', self.code,
                      flags=re.S | re.M)

    @property
    def names(self):
        return [name for name, _, _ in self.functions]

    @property
    def types(self):
        """Definitions, with their comments."""
        return [m.group(0) for m in
                re.finditer(r'typedef [^;{]*\{.*?\}[^;]*;', self.code, re.S)]

    @property
    def words(self):
        return ' '.join(self.comment)


def plain(comment):
    """The lines of a comment without its stars."""
    lines = [re.sub(r'^ \* ?', '', line.rstrip())
             for line in comment.strip('\n').split('\n')]
    lines[0] = lines[0].strip()
    lines = ['' if line.strip() == '*' else line.rstrip() for line in lines]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def paragraphs(header, text):
    """Cuts at blank lines outside of comments and braces."""
    found, lines, deep = [], [], False
    for line in text.split('\n') + ['']:
        if not line.strip() and not deep:
            if lines:
                found.append(Paragraph(header, '\n'.join(lines)))
            lines = []
            continue
        lines.append(line)
        so_far = '\n'.join(lines)
        code = re.sub(r'/\*.*?\*/', '', so_far, flags=re.S)
        deep = '/*' in code or (code.count('{') > code.count('}')
                                and 'extern' not in code)
    return found


def read(path):
    with open(path, encoding='utf-8') as file:
        text = re.sub(r'^/\* SPDX.*\n', '', file.read())
    return paragraphs('coll/' + os.path.basename(path), text)


def escape(line):
    line = line.replace('\\', '\\e').replace('-', '\\-').replace("'", '\\(aq')
    return '\\&' + line if line.startswith('.') else line


def body(lines):
    """Roff of a comment: text, lists of terms, and what is set as it stands."""
    out, term_at, terms, verbatim = [], None, 0, False

    def stop():
        nonlocal term_at, verbatim
        if verbatim:
            out.extend(['.fi', '.RE'])
        term_at, verbatim = None, False
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        row = re.match(r'\s*(\S.*?)\s{2,}(\S.*)$', line)
        if not line.strip():
            stop()
            out.append('.PP')
        elif row and (term_at is None or indent < term_at):
            stop()
            out += ['.TP', '.B ' + escape(row.group(1)), escape(row.group(2))]
            term_at, terms = row.start(2), indent
        elif term_at is not None and 0 < indent == terms:
            out += ['.TP', '.B ' + escape(line.strip())]
        elif term_at is not None and indent:
            out.append(escape(line.strip()))
        elif indent and i > 0:
            if not verbatim:
                out.extend(['.PP', '.RS', '.nf'])
            verbatim = True
            out.append(escape(line.strip()))
        else:
            if term_at is not None or verbatim:
                stop()
                out.append('.PP')
            out.append(escape(line.strip()))
    stop()
    return [line for i, line in enumerate(out)
            if line != '.PP' or (i + 1 < len(out) and out[i + 1] not in (
                '.PP', '.TP'))]


def summary(paragraph):
    """The first sentence, or what of it says enough."""
    sentence = re.split(r'(?<=\w|\)|\]|")[.](?:\s|$)', paragraph.words)[0]
    sentence = re.sub(r'\s+', ' ', sentence).strip()
    if len(sentence) > 90:
        sentence = re.split(r'[;:]\s', sentence)[0]
    first = sentence.split(' ')[0]
    if first[1:].islower():
        sentence = sentence[0].lower() + sentence[1:]
    return sentence


def errors_of(paragraph, all_paragraphs, inherited, seen=()):
    """Names of statuses, with those of functions that it says it is like."""
    words = paragraph.words + ' ' + ' '.join(inherited)
    names = {m.group(1) for m in STATUS.finditer(words)}
    for like in LIKE.findall(words):
        for other in all_paragraphs:
            if like in other.names and like not in seen \
                    and other is not paragraph:
                names |= errors_of(other, all_paragraphs, [], (*seen, like))
    return names


def meanings(all_paragraphs):
    """What types.h says of each status: name -> text."""
    found = {}
    for p in all_paragraphs:
        for m in re.finditer(r'COLL_ERR_(\w+) = -?\d+,\s*/\* (.*?) \*/',
                             p.code, re.S):
            found[m.group(1)] = re.sub(r'\s+', ' ', m.group(2))
    return found


def returned(paragraph):
    kinds = {kind for _, kind, _ in paragraph.functions}
    out = []
    if 'coll_status' in kinds:
        out.append('COLL_OK (0) for success, or a negative coll_status; '
                   'coll_last_error(3) has a sentence about it.')
    if kinds - {'coll_status', 'void'}:
        out.append('As described above.')
    return out or ['None.']


def page(paragraph, all_paragraphs, inherited, version):
    names = paragraph.names
    statuses = meanings(all_paragraphs)
    errors = errors_of(paragraph, all_paragraphs, [' '.join(inherited)])
    out = ['.\\" SPDX-License-Identifier: MIT',
           f'.\\" Written by pages.py from {paragraph.header}.',
           f'.TH {names[0].upper()} 3 "" "libcoll {version}" '
           '"Library Functions"', '.SH NAME',
           f'{", ".join(names)} \\- {escape(summary(paragraph))}',
           '.SH SYNOPSIS', '.nf', f'.B #include <{paragraph.header}>']
    for code in paragraph.types + [text for _, _, text in
                                   paragraph.functions]:
        out += ['.PP', *map(escape, code.strip().split('\n'))]
    out += ['.fi', '.PP', 'Link with \\fI\\-lcoll\\fP.', '.SH DESCRIPTION',
            *body(paragraph.comment)]
    if inherited:
        out += ['.PP', *body(inherited)]
    out += ['.SH RETURN VALUE']
    for i, line in enumerate(returned(paragraph)):
        out += ['.PP'] * (i > 0) + [escape(line)]
    if any(kind == 'coll_status' for _, kind, _ in paragraph.functions):
        out += ['.SH ERRORS']
        for name in sorted(errors & set(statuses)):
            out += ['.TP', f'.B COLL_ERR_{name}', escape(statuses[name])]
        if not errors & set(statuses):
            out += ['None of its own.']
    out += ['.SH SEE ALSO', '.BR libcoll (3)']
    return '\n'.join(out) + '\n'


def overview(header, all_paragraphs, version):
    first = next(p for p in all_paragraphs if p.header == header)
    out = ['.\\" SPDX-License-Identifier: MIT',
           f'.TH LIBCOLL 3 "" "libcoll {version}" "Library Functions"',
           '.SH NAME', f'libcoll \\- {escape(summary(first))}',
           '.SH SYNOPSIS', '.nf', f'.B #include <{header}>', '.fi', '.PP',
           'Link with \\fI\\-lcoll\\fP.', '.SH DESCRIPTION',
           *body(first.comment), '.SH FUNCTIONS', '.ad l']
    for p in all_paragraphs:
        if p.functions:
            out += ['.TP', '\n.TQ\n'.join(f'.BR {n} (3)' for n in p.names),
                    escape(summary(p))]
    return '\n'.join(out) + '\n'


def main():
    folder, version, *headers = sys.argv[1:]
    everything = [p for path in headers for p in read(path)]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)

    def write(name, text):
        with open(os.path.join(folder, name + '.3'), 'w',
                  encoding='utf-8') as file:
            file.write(text)
    common, header = [], None
    for p in everything:
        if p.header != header:
            common, header = [], p.header
        if not p.code.strip() and 'holds for each' in p.words:
            common = p.comment
        if not p.functions:
            continue
        if not p.comment:
            sys.exit(f'pages.py: {p.header}: {p.names[0]} has no comment')
        text = ' '.join(text for _, _, text in p.functions)
        takes = 'coll_request **request' in text and 'coll_comm *comm' in text
        write(p.names[0], page(p, everything, common if takes else [],
                               version))
        for name in p.names[1:]:
            write(name, f'.so man3/{p.names[0]}.3\n')
    write('libcoll', overview('coll/coll.h', everything, version))


if __name__ == '__main__':
    main()
