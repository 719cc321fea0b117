# SPDX-License-Identifier: MIT
"""Writes shell completions from what the programs' --help says.

Usage: completions.py OUT_DIR PROGRAM...
Writes for each PROGRAM (a path) the files PROGRAM.bash, _PROGRAM (zsh) and
PROGRAM.fish into OUT_DIR. Options, their arguments and their choices come from
the table that the program parses its command line with, by way of --help, so
completions cannot disagree with it.
"""
import os
import re
import subprocess
import sys

# "  -n, --ranks N             how many": letter, name, argument, text.
ROW = re.compile(r'  (?:-(\w)(?:, )?|    )(?:--([\w-]+))?(?: (\S.*?))??'
                 r'(?:\s{2,}(\S.*))?$')
FILE_WORDS = re.compile(r'FILE|PATH|DIR')
RUNS_PROGRAM = re.compile(r'\bPROGRAM\b')


class Option:
    def __init__(self, letter, name, argument, text):
        self.letter, self.name = letter, name
        self.argument, self.text = argument, text or ''

    def finish(self):
        """Once all lines of the text are there."""
        match = re.search(r'; one of: (.*)$', self.text)
        self.choices = match.group(1).split(', ') if match else []
        self.files = bool(self.argument and FILE_WORDS.search(self.argument))
        self.summary = re.sub(r'; one of: .*', '', self.text)
        self.words = ([f'-{self.letter}'] if self.letter else []) + (
            [f'--{self.name}'] if self.name else [])


def parse_help(text):
    """The options, and whether the operand is a program to run."""
    usage, _, rest = text.partition('\nOptions:\n')
    if not rest:
        sys.exit('completions.py: --help has no line "Options:"')
    options = []
    for line in rest.split('\n\n')[0].splitlines():
        row = ROW.match(line)
        if row and (row.group(1) or row.group(2)):
            options.append(Option(*row.groups()))
        elif options:
            options[-1].text = (options[-1].text + ' ' + line.strip()).strip()
    for option in options:
        option.finish()
    return options, bool(RUNS_PROGRAM.search(usage))


def bash(program, options, runs_program):
    function = '_' + re.sub(r'\W', '_', program)
    words = ' '.join(word for o in options for word in o.words)
    with_argument = '|'.join(word for o in options if o.argument
                             for word in o.words)
    lines = [f'# bash completion for {program}', f'{function}()', '{',
             '    local word=${COMP_WORDS[COMP_CWORD]}'
             ' before=${COMP_WORDS[COMP_CWORD-1]}']
    if runs_program:
        lines += [
            '    local i=1',
            '    while ((i < COMP_CWORD)); do',
            '        case ${COMP_WORDS[i]} in',
            f'        {with_argument}) ((i += 2));;',
            '        -*) ((i += 1));;',
            '        *) _command_offset "$i"; return;;',
            '        esac',
            '    done']
    lines += ['    case $before in']
    for o in options:
        if o.choices or o.files:
            how = ('-f' if o.files else f"-W '{' '.join(o.choices)}'")
            lines += [f'    {"|".join(o.words)})',
                      f'        COMPREPLY=($(compgen {how} -- "$word"))',
                      '        return;;']
    plain = '|'.join(word for o in options
                     if o.argument and not (o.choices or o.files)
                     for word in o.words)
    if plain:
        lines += [f'    {plain})', '        COMPREPLY=()', '        return;;']
    operands = '-c' if runs_program else '-f'
    lines += ['    esac',
              '    if [[ $word == -* ]]; then',
              f"        COMPREPLY=($(compgen -W '{words}' -- \"$word\"))",
              '    else',
              f'        COMPREPLY=($(compgen {operands} -- "$word"))',
              '    fi', '}', f'complete -o filenames -F {function} {program}']
    return '\n'.join(lines) + '\n'


def zsh(program, options, runs_program):
    def escape(text):
        for c in '\\[]:':
            text = text.replace(c, '\\' + c)
        return text.replace("'", "'\\''")
    lines = [f'#compdef {program}', '_arguments -s -S \\']
    for o in options:
        action = ''
        if o.argument:
            how = ('_files' if o.files else f"({' '.join(o.choices)})"
                   if o.choices else ' ')
            action = f':{escape(o.argument)}:{how}'
        for word in o.words:
            others = ' '.join(w for w in o.words if w != word)
            repeat = f'({others})' if others else ''
            equals = '=' if word.startswith('--') and o.argument else ''
            lines.append(f"    '{repeat}{word}{equals}[{escape(o.summary)}]"
                         f"{action}' \\")
    lines.append("    '*::program:_normal'" if runs_program
                 else "    '*:file:_files'")
    return '\n'.join(lines) + '\n'


def fish(program, options, runs_program):
    lines = [f'# fish completion for {program}']
    for o in options:
        text = o.summary.replace('\\', '\\\\').replace("'", "\\'")
        line = f'complete -c {program}'
        line += f' -s {o.letter}' if o.letter else ''
        line += f' -l {o.name}' if o.name else ''
        if o.argument:
            line += ' -r' if o.files else ' -x'
        if o.choices:
            line += f" -a '{' '.join(o.choices)}'"
        lines.append(f"{line} -d '{text}'")
    if runs_program:
        lines.append(f"complete -c {program} -x -a "
                     "'(__fish_complete_subcommand)'")
    return '\n'.join(lines) + '\n'


def main():
    out, *programs = sys.argv[1:]
    for path in programs:
        name = os.path.basename(path)
        text = subprocess.run([os.path.abspath(path), '--help'], check=True,
                              capture_output=True, text=True).stdout
        parsed = parse_help(text)
        for file, write in ((name + '.bash', bash), ('_' + name, zsh),
                            (name + '.fish', fish)):
            with open(os.path.join(out, file), 'w', encoding='utf-8') as f:
                f.write(write(name, *parsed))


if __name__ == '__main__':
    main()
