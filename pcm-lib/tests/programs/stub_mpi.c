/* What is needed of an MPI to see which one a program gets; it has few functions. */
#ifdef OPEN_MPI_STUB
int ompi_mpi_comm_world;
#endif
int PMPI_Init(int *argc, char ***argv);
int PMPI_Initialized(int *flag);
int PMPI_Finalize(void);
int PMPI_Query_thread(int *provided);

int PMPI_Init(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return 0;
}

int PMPI_Initialized(int *flag)
{
    *flag = 0;
    return 0;
}

int PMPI_Finalize(void)
{
    return 0;
}

int PMPI_Query_thread(int *provided)
{
    *provided = 0;
    return 0;
}
