/* closer.h - threads that do nothing but close descriptors that a client had a hand in.
 *
 * close(2) may take as long as the client likes: of a socket with SO_LINGER and bytes that nobody
 * takes, of a file of a file system that the client serves itself, and of a unix socket in whose
 * queue such things wait. Each user has a thread of its own, while there is something to close for
 * it; so nobody waits for another's descriptors, and the loop for none.
 *
 * Of sockets none waits here either: SO_LINGER is switched off, and what is in the queue of a unix
 * socket is taken out and closed likewise. So what can hold a thread up is a file system that the
 * user serves. */
#ifndef LOADER_SERVE_CLOSER_H
#define LOADER_SERVE_CLOSER_H

#include <stdbool.h>
#include <stdint.h>

/** The user of a client that was not asked who it is. */
#define CLOSER_STRANGER UINT64_MAX

/** Close a descriptor soon; it is taken. Threads: any. */
void closer_close(uint64_t user, int fd);

/** Do many descriptors of that user's wait for one whose closing does not end? Threads: any. */
bool closer_is_stuck(uint64_t user);

#endif
