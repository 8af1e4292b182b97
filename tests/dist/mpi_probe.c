/* What may happen to a rank of an MPI program. Each argument is a step; one that has no meaning is printed. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank = -1;

static const char* result(int error) { return error == MPI_SUCCESS ? "succeeded" : "failed"; }

/* Rank 0 publishes a name that all ranks look up. */
static void share_a_name(void) {
  char port[MPI_MAX_PORT_NAME] = "a port of rank 0";
  if (rank == 0) printf("publish %s\n", result(MPI_Publish_name("place", MPI_INFO_NULL, port)));
  MPI_Barrier(MPI_COMM_WORLD);
  memset(port, 0, sizeof port);
  printf("lookup %s: %s\n", result(MPI_Lookup_name("place", MPI_INFO_NULL, port)), port);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("unpublish %s\n", result(MPI_Unpublish_name("place", MPI_INFO_NULL, port)));
  MPI_Barrier(MPI_COMM_WORLD);
  printf("lookup again %s\n", result(MPI_Lookup_name("place", MPI_INFO_NULL, port)));
  fflush(stdout);
}

static void say_app(void) {
  int* app = NULL;
  int is_set = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &is_set);
  printf("program %d\n", is_set ? *app : -1);
  fflush(stdout);
}

static void spawn(const char* program) {
  MPI_Comm child;
  printf("spawn %s\n", result(MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child,
                                             MPI_ERRCODES_IGNORE)));
  fflush(stdout);
}

int main(int argc, char** argv) {
  const char* const number = getenv("RANK");
  for (int i = 1; i < argc; ++i) {
    /* "1:exit" is a step of rank 1 only, "first:1:exit" one of its first generation */
    const char* step = argv[i];
    if (strncmp(step, "first:", 6) == 0) {
      if (strcmp(getenv("TORCHELASTIC_RESTART_COUNT"), "0") != 0) continue;
      step += 6;
    }
    if (step[0] >= '0' && step[0] <= '9') {
      if (number == NULL || step[0] != number[0]) continue;
      step += 2;
    }
    if (strcmp(step, "init") == 0) {
      MPI_Init(NULL, NULL);
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
      MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    } else if (strcmp(step, "finalize") == 0) {
      MPI_Finalize();
    } else if (strcmp(step, "barrier") == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(step, "abort") == 0) {
      MPI_Abort(MPI_COMM_WORLD, 3);
    } else if (strcmp(step, "exit") == 0) {
      _exit(0);
    } else if (strcmp(step, "kill") == 0) {
      kill(getpid(), 9);
    } else if (strcmp(step, "names") == 0) {
      share_a_name();
    } else if (strcmp(step, "app") == 0) {
      say_app();
    } else if (strcmp(step, "spawn") == 0) {
      spawn(argv[0]);
    } else if (strcmp(step, "pause") == 0) {
      pause();
    } else {
      printf("%s\n", step);
      fflush(stdout);
    }
  }
  return 0;
}
