/* mpi_sum.c in a library. */
int mpi_sum(int argc, char** argv);

int main(int argc, char** argv) { return mpi_sum(argc, argv); }
