/* What the chapters of the conformance program share. A check is one function that all ranks run; it says nothing and
 * goes on to its end whatever it finds, so that no other rank waits for it in vain. */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    const char *name;
    void (*run)(void);
};

/* Ends with an entry of zeros. */
#define CHECK(function) {#function, function}

/* Of MPI_COMM_WORLD as it is now. */
extern int rank, size, next, previous;
/* The program itself, for checks that start it again. */
extern const char *own_program;
/* Before it is 0, after the first change 1, and so on. */
extern int changes_seen;

enum { RANKS_MAX = 64 };

/* Notes that a statement does not hold; only the first one of a check is told. */
int note(int holds, const char *text, int line);
/* Notes what a call of MPI returned, unless that is MPI_SUCCESS. */
int note_code(int code, const char *text, int line);
#define expect(statement) note(!!(statement), #statement, __LINE__)
#define call(expression) note_code((expression), #expression, __LINE__)
/* The call must return an error of this class. */
#define expect_class(expression, class) note(class_of(expression) == (class), #expression " gives " #class, __LINE__)
int class_of(int code);

/* A name for a file that all ranks of this check share and no other check uses. Collective. */
const char *shared_file(void);

/* What a process does that was spawned. */
void be_a_child(int argc, char **argv, MPI_Comm parent);

extern const struct check point_to_point[];
extern const struct check requests[];
extern const struct check datatypes[];
extern const struct check threads[];
extern const struct check dynamic[];
extern const struct check environment[];
extern const struct check sessions[];
extern const struct check files[];
extern const struct check windows[];
extern const struct check topologies[];
extern const struct check errors[];
extern const struct check caching[];
extern const struct check communicators[];
extern const struct check groups[];
extern const struct check begun_collectives[];
extern const struct check operations[];
extern const struct check collectives[];

#endif
