/* An MPI program that runs the test named by its first argument. Its output is the same under every
 * launcher. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

/* Every rank prints a line. The root's own lines are in the order of ranks. */
static void gathered(MPI_Comm comm, const char *line) {
  char mine[128] = {0}, *all = NULL;
  int me, many;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &many);
  snprintf(mine, sizeof mine, "%s", line);
  if (me == 0) all = calloc((size_t)many, sizeof mine);
  MPI_Gather(mine, sizeof mine, MPI_CHAR, all, sizeof mine, MPI_CHAR, 0, comm);
  for (int i = 0; me == 0 && i < many; i++) printf("%s\n", all + (size_t)i * sizeof mine);
  fflush(stdout);
  free(all);
}

static void hello(void) {
  char line[128];
  snprintf(line, sizeof line, "hello from %d of %d", rank, size);
  gathered(MPI_COMM_WORLD, line);
}

/* Passes a token around; each rank adds its own number. */
static void ring(void) {
  int token = 0;
  if (size > 1) {
    int before = (rank + size - 1) % size, after = (rank + 1) % size;
    if (rank != 0) MPI_Recv(&token, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token += rank;
    MPI_Send(&token, 1, MPI_INT, after, 1, MPI_COMM_WORLD);
    if (rank == 0) MPI_Recv(&token, 1, MPI_INT, before, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  if (rank == 0) printf("ring of %d: %d\n", size, token);
}

static void collectives(void) {
  int sum, most, everyone = 0, *all = calloc((size_t)size, sizeof *all), *dealt = calloc((size_t)size, sizeof *dealt);
  int mine = rank + 1, seed = rank == 0 ? 42 : 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Reduce(&mine, &most, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Bcast(&seed, 1, MPI_INT, 0, MPI_COMM_WORLD);
  MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
  MPI_Alltoall(all, 1, MPI_INT, dealt, 1, MPI_INT, MPI_COMM_WORLD);
  for (int i = 0; i < size; i++) everyone += dealt[i] == mine;
  MPI_Comm half;
  int in_half, of_half;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Comm_size(half, &in_half);
  MPI_Allreduce(&rank, &of_half, 1, MPI_INT, MPI_SUM, half);
  MPI_Comm_free(&half);
  MPI_Barrier(MPI_COMM_WORLD);
  char line[128];
  snprintf(line, sizeof line, "%d: sum %d seed %d dealt %d half %d of %d", rank, sum, seed, everyone == size, of_half, in_half);
  gathered(MPI_COMM_WORLD, line);
  if (rank == 0) printf("most %d\n", most);
  free(all);
  free(dealt);
}

static void spawn(char *self, const char *how) {
  MPI_Comm child, both;
  int many = 2, total, fails[2] = {0, 0};
  char *words[] = {"child", (char *)how, NULL};
  MPI_Comm_spawn(self, words, many, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &child, fails);
  MPI_Intercomm_merge(child, 0, &both);
  MPI_Allreduce(&rank, &total, 1, MPI_INT, MPI_SUM, both);
  int merged;
  MPI_Comm_size(both, &merged);
  char line[128];
  snprintf(line, sizeof line, "parent %d: %d in all, sum %d", rank, merged, total);
  gathered(MPI_COMM_WORLD, line);
  MPI_Comm_free(&both);
  MPI_Comm_disconnect(&child);
}

static void child(const char *how) {
  MPI_Comm parent, both;
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL) {
    printf("nobody spawned me\n");
    exit(9);
  }
  if (how && strcmp(how, "abort") == 0 && rank == 1) MPI_Abort(MPI_COMM_WORLD, 23);
  MPI_Intercomm_merge(parent, 1, &both);
  int total;
  MPI_Allreduce(&rank, &total, 1, MPI_INT, MPI_SUM, both);
  MPI_Comm_free(&both);
  MPI_Comm_disconnect(&parent);
}

/* Half of the ranks publish a port and accept; the others look it up and connect. */
static void names(void) {
  char port[MPI_MAX_PORT_NAME] = {0};
  int is_server = rank < (size + 1) / 2;
  MPI_Comm side, far;
  MPI_Comm_split(MPI_COMM_WORLD, is_server, rank, &side);
  int me;
  MPI_Comm_rank(side, &me);
  if (is_server) {
    if (me == 0) {
      MPI_Open_port(MPI_INFO_NULL, port);
      MPI_Publish_name("peal-test", MPI_INFO_NULL, port);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, side, &far);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0) MPI_Lookup_name("peal-test", MPI_INFO_NULL, port);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, side, &far);
  }
  int many;
  MPI_Comm_remote_size(far, &many);
  MPI_Comm_disconnect(&far);
  MPI_Barrier(MPI_COMM_WORLD);
  if (is_server && me == 0) {
    MPI_Unpublish_name("peal-test", MPI_INFO_NULL, port);
    MPI_Close_port(port);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  int failed = 0;
  if (rank == 0) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    failed = MPI_Lookup_name("peal-test", MPI_INFO_NULL, port) != MPI_SUCCESS;
  }
  char line[128];
  snprintf(line, sizeof line, "%d: %s %d", rank, is_server ? "accepted" : "connected to", many);
  gathered(MPI_COMM_WORLD, line);
  if (rank == 0) printf("then the name is %s\n", failed ? "gone" : "still there");
}

/* The last rank kills itself. The others wait for its message, or work on without it for this
 * number of seconds. */
static void die(double seconds) {
  int is_last = rank == size - 1, never, enough = 0, sum;
  MPI_Comm rest;
  MPI_Comm_split(MPI_COMM_WORLD, is_last, rank, &rest);
  MPI_Barrier(MPI_COMM_WORLD);
  if (is_last) {
    printf("last words of %d\n", rank);
    fflush(stdout);
    raise(SIGKILL);
  }
  if (seconds <= 0) MPI_Recv(&never, 1, MPI_INT, size - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (double end = MPI_Wtime() + seconds; !enough; usleep(10000)) {
    int late = MPI_Wtime() > end;
    MPI_Allreduce(&late, &enough, 1, MPI_INT, MPI_MAX, rest);
  }
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, rest);
  if (rank == 0) printf("the other %d have worked on: sum %d\n", size - 1, sum);
  fflush(stdout);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "hello";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(what, "hello") == 0) hello();
  if (strcmp(what, "ring") == 0) ring();
  if (strcmp(what, "collectives") == 0) collectives();
  if (strcmp(what, "spawn") == 0) spawn(argv[0], argc > 2 ? argv[2] : "merge");
  if (strcmp(what, "child") == 0) child(argc > 2 ? argv[2] : NULL);
  if (strcmp(what, "names") == 0) names();
  if (strcmp(what, "abort") == 0) {
    if (rank == size - 1) {
      printf("last words of %d\n", rank);
      fflush(stdout);
      MPI_Abort(MPI_COMM_WORLD, 17);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (strcmp(what, "die") == 0) die(argc > 2 ? atof(argv[2]) : 0);
  MPI_Finalize();
  return 0;
}
