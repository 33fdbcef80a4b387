/* The process and its surroundings: initialisation, clocks, names, info objects, handles in other languages, the
 * profiling interface, the tools interface. */
#include "conformance.h"

#ifdef MPI_ABI_VERSION
/* By these names the standard ABI has handles as numbers. */
#define MPI_Comm_c2f MPI_Comm_toint
#define MPI_Comm_f2c MPI_Comm_fromint
#define MPI_Errhandler_c2f MPI_Errhandler_toint
#define MPI_Errhandler_f2c MPI_Errhandler_fromint
#define MPI_File_c2f MPI_File_toint
#define MPI_File_f2c MPI_File_fromint
#define MPI_Group_c2f MPI_Group_toint
#define MPI_Group_f2c MPI_Group_fromint
#define MPI_Info_c2f MPI_Info_toint
#define MPI_Info_f2c MPI_Info_fromint
#define MPI_Op_c2f MPI_Op_toint
#define MPI_Op_f2c MPI_Op_fromint
#define MPI_Request_c2f MPI_Request_toint
#define MPI_Request_f2c MPI_Request_fromint
#define MPI_Type_c2f MPI_Type_toint
#define MPI_Type_f2c MPI_Type_fromint
#define MPI_Win_c2f MPI_Win_toint
#define MPI_Win_f2c MPI_Win_fromint
#endif

static void initialised(void)
{
    int begun = 0, ended = 1, is_main = 0, level = -1;
    call(MPI_Initialized(&begun));
    call(MPI_Finalized(&ended));
    call(MPI_Is_thread_main(&is_main));
    call(MPI_Query_thread(&level));
    expect(begun && !ended && is_main && level >= MPI_THREAD_SINGLE && level <= MPI_THREAD_MULTIPLE);
}

static void version(void)
{
    int version = 0, sub = -1, length = 0;
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    call(MPI_Get_version(&version, &sub));
    call(MPI_Get_library_version(text, &length));
    expect(version == MPI_VERSION && sub == MPI_SUBVERSION && length > 0 && length == (int)strlen(text));
}

static void processor_name(void)
{
    int length = 0;
    char name[MPI_MAX_PROCESSOR_NAME] = "", of_root[MPI_MAX_PROCESSOR_NAME];
    call(MPI_Get_processor_name(name, &length));
    expect(length > 0 && length == (int)strlen(name));
    memcpy(of_root, name, sizeof name);
    call(MPI_Bcast(of_root, sizeof of_root, MPI_CHAR, 0, MPI_COMM_WORLD));
    expect(strcmp(of_root, name) == 0); /* The checks run on one machine. */
}

static void clock_moves(void)
{
    double begin = MPI_Wtime(), tick = MPI_Wtick();
    expect(tick > 0 && tick < 0.01);
    for (int i = 0; i < 1000000 && MPI_Wtime() <= begin; i++)
        ;
    expect(MPI_Wtime() > begin);
}

static void no_parent(void)
{
    MPI_Comm parent = MPI_COMM_WORLD;
    call(MPI_Comm_get_parent(&parent));
    expect(parent == MPI_COMM_NULL);
}

static void hints_of_the_start(void)
{
    int count = -1;
    call(MPI_Info_get_nkeys(MPI_INFO_ENV, &count));
    expect(count >= 0);
}

static void info(void)
{
    char value[16] = "", key[MPI_MAX_INFO_KEY] = "";
    int length = sizeof value, there = 0, count = 0;
    MPI_Info info, copy;
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "colour", "red"));
    call(MPI_Info_set(info, "shape", "round"));
    call(MPI_Info_set(info, "colour", "blue"));
    call(MPI_Info_get_nkeys(info, &count));
    call(MPI_Info_get_nthkey(info, 1, key));
    call(MPI_Info_get_string(info, "colour", &length, value, &there));
    expect(count == 2 && strcmp(key, "shape") == 0 && there && strcmp(value, "blue") == 0 && length == 5);
    call(MPI_Info_dup(info, &copy));
    call(MPI_Info_delete(info, "colour"));
    call(MPI_Info_get_string(info, "colour", &length, value, &there));
    expect(!there);
    call(MPI_Info_get_nkeys(copy, &count));
    expect(count == 2);
    expect_class(MPI_Info_delete(info, "colour"), MPI_ERR_INFO_NOKEY);
    call(MPI_Info_free(&info));
    call(MPI_Info_free(&copy));
    expect(info == MPI_INFO_NULL);
}

static void info_with_little_room(void)
{
    char value[4] = "";
    int length = sizeof value, there = 0;
    MPI_Info info;
    call(MPI_Info_create(&info));
    call(MPI_Info_set(info, "key", "a long value"));
    call(MPI_Info_get_string(info, "key", &length, value, &there));
    expect(there && length == 13 && strcmp(value, "a l") == 0);
    call(MPI_Info_free(&info));
}

static void handles_in_fortran(void)
{
    MPI_Group group;
    MPI_Info info;
    MPI_Request request = MPI_REQUEST_NULL;
    call(MPI_Comm_group(MPI_COMM_WORLD, &group));
    call(MPI_Info_create(&info));
    expect(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    expect(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_SELF)) == MPI_COMM_SELF);
    expect(MPI_Type_f2c(MPI_Type_c2f(MPI_INT)) == MPI_INT);
    expect(MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)) == MPI_SUM);
    expect(MPI_Group_f2c(MPI_Group_c2f(group)) == group);
    expect(MPI_Info_f2c(MPI_Info_c2f(info)) == info);
    expect(MPI_Request_f2c(MPI_Request_c2f(request)) == request);
    expect(MPI_Errhandler_f2c(MPI_Errhandler_c2f(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
    call(MPI_Group_free(&group));
    call(MPI_Info_free(&info));
}

static void world_back_from_fortran(void)
{
    int sum = 0;
    MPI_Comm world = MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD));
    call(MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, world));
    expect(sum == size);
}

static void windows_and_files_in_fortran(void)
{
    int memory = 0;
    MPI_Win win;
    MPI_File file;
    call(MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win));
    expect(MPI_Win_f2c(MPI_Win_c2f(win)) == win);
    call(MPI_Win_free(&win));
    call(MPI_File_open(MPI_COMM_WORLD, shared_file(), MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                       MPI_INFO_NULL, &file));
    expect(MPI_File_f2c(MPI_File_c2f(file)) == file);
    call(MPI_File_close(&file));
}

static void statuses_in_fortran(void)
{
    MPI_Status status;
    call(MPI_Sendrecv(&rank, 1, MPI_INT, next, 7, &(int){0}, 1, MPI_INT, previous, 7, MPI_COMM_WORLD, &status));
#ifdef MPI_ABI_VERSION
    /* It is the same one. */
    const int *of_fortran = (const int *)&status;
    expect(of_fortran[MPI_F_SOURCE] == previous && of_fortran[MPI_F_TAG] == 7);
#else
    MPI_Fint of_fortran[sizeof(MPI_Status) / sizeof(MPI_Fint)];
    MPI_Status back;
    call(MPI_Status_c2f(&status, of_fortran));
    call(MPI_Status_f2c(of_fortran, &back));
    expect(back.MPI_SOURCE == previous && back.MPI_TAG == 7);
#endif
}

/* A tool would call these in place of MPI's own. */
static void names_of_the_profiling_interface(void)
{
    int own = -1, members = 0, sum = 0;
    call(PMPI_Comm_rank(MPI_COMM_SELF, &own));
    call(PMPI_Comm_size(MPI_COMM_SELF, &members));
    call(PMPI_Allreduce(&members, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF));
    expect(own == 0 && members == 1 && sum == 1);
    expect(PMPI_Wtime() > 0);
}

static void world_of_the_profiling_interface(void)
{
    int own = -1, members = 0;
    call(PMPI_Comm_rank(MPI_COMM_WORLD, &own));
    call(PMPI_Comm_size(MPI_COMM_WORLD, &members));
    expect(own == rank && members == size);
}

static void level_of_profiling(void)
{
    call(MPI_Pcontrol(1));
    call(MPI_Pcontrol(0));
}

static void control_variables_of_tools(void)
{
    int level, count = 0, length = 128, words = 0, index = -1, verbosity, binding, scope, described = 0;
    char name[128] = "";
    MPI_Datatype type;
    MPI_T_enum values;
    call(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
    call(MPI_T_cvar_get_num(&count));
    expect(count > 0);
    call(MPI_T_cvar_get_info(0, name, &length, &verbosity, &type, &values, NULL, &described, &binding, &scope));
    call(MPI_T_cvar_get_index(name, &index));
    expect(index == 0 && words == 0);
    call(MPI_T_finalize());
}

static void performance_variables_of_tools(void)
{
    int level, count = -1;
    MPI_T_pvar_session session;
    call(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
    call(MPI_T_pvar_get_num(&count));
    call(MPI_T_pvar_session_create(&session));
    expect(count >= 0);
    call(MPI_T_pvar_session_free(&session));
    call(MPI_T_finalize());
}

static void categories_of_tools(void)
{
    int level, count = -1;
    call(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
    call(MPI_T_category_get_num(&count));
    expect(count > 0);
    call(MPI_T_finalize());
}

static void reading_a_control_variable(void)
{
    int level, index = -1, count = 0, value = -1;
    MPI_T_cvar_handle handle;
    call(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
    if (expect(MPI_T_cvar_get_index("MPIR_CVAR_BCAST_MIN_PROCS", &index) == MPI_SUCCESS)) {
        call(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
        call(MPI_T_cvar_read(handle, &value));
        expect(count == 1 && value > 0);
        call(MPI_T_cvar_handle_free(&handle));
    }
    call(MPI_T_finalize());
}

#if MPI_VERSION >= 4
static void hardware(void)
{
    int there = 0, length = 8;
    char value[8] = "";
    MPI_Info info;
    call(MPI_Get_hw_resource_info(&info));
    call(MPI_Info_get_string(info, "no such resource", &length, value, &there));
    expect(!there);
    call(MPI_Info_free(&info));
}
#endif

const struct check environment[] = {
    CHECK(initialised),
    CHECK(version),
    CHECK(processor_name),
    CHECK(clock_moves),
    CHECK(no_parent),
    CHECK(hints_of_the_start),
    CHECK(info),
    CHECK(info_with_little_room),
    CHECK(handles_in_fortran),
    CHECK(world_back_from_fortran),
    CHECK(windows_and_files_in_fortran),
    CHECK(statuses_in_fortran),
    CHECK(names_of_the_profiling_interface),
    CHECK(world_of_the_profiling_interface),
    CHECK(level_of_profiling),
    CHECK(control_variables_of_tools),
    CHECK(performance_variables_of_tools),
    CHECK(categories_of_tools),
    CHECK(reading_a_control_variable),
#if MPI_VERSION >= 4
    CHECK(hardware),
#endif
    {0},
};
