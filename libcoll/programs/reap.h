/* SPDX-License-Identifier: MIT */
/* Leaving no process behind, whoever is killed.
 *
 * Orphans of a rank, however they detached themselves, become children of the
 * nearest ancestor that adopts (PR_SET_CHILD_SUBREAPER), which then ends them.
 * An agent runs under a guard, so that this holds even if the agent itself is
 * killed: the ranks die by PR_SET_PDEATHSIG, and the guard ends their orphans.
 */
#ifndef PROGRAMS_REAP_H
#define PROGRAMS_REAP_H

/* Runs work() in a child; afterwards kills what it left behind. Returns its
 * exit status. If the caller dies, work()'s process gets SIGTERM. */
int reap_guarded(int (*work)(void *), void *context);

/* Makes this process adopt orphans of its descendants. */
void reap_adopt(void);

/* Sends a signal to every child, adopted ones included. */
void reap_signal(int signal);

/* Kills and collects all children, and theirs as they are adopted. Gives up
 * after 5 s on a process that the kernel cannot end. */
void reap_all(void);

#endif
