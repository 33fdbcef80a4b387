/* Error handlers of communicators, windows, files and sessions; classes, codes and texts; errors of wrong arguments. */
#include "conformance.h"

static int handled, last_code;
static MPI_Comm last_comm;
static MPI_Win last_window;
static MPI_File last_file;
static MPI_Session last_session;

static void on_error(MPI_Comm *comm, int *code, ...)
{
    handled++;
    last_comm = *comm;
    last_code = *code;
}

static void on_window_error(MPI_Win *window, int *code, ...)
{
    handled++;
    last_window = *window;
    last_code = *code;
}

static void on_file_error(MPI_File *file, int *code, ...)
{
    handled++;
    last_file = *file;
    last_code = *code;
}

static void on_session_error(MPI_Session *session, int *code, ...)
{
    handled++;
    last_session = *session;
    last_code = *code;
}

static void forget(void)
{
    handled = last_code = 0;
    last_comm = MPI_COMM_NULL;
}

static int wrong_send(MPI_Comm comm)
{
    return MPI_Send(&rank, 1, MPI_INT, 100000, 1, comm);
}

static void own_handler_of_the_world(void)
{
    MPI_Errhandler handler;
    forget();
    call(MPI_Comm_create_errhandler(on_error, &handler));
    call(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    wrong_send(MPI_COMM_WORLD);
    expect(handled == 1 && class_of(last_code) == MPI_ERR_RANK);
    call(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    call(MPI_Errhandler_free(&handler));
    expect(handler == MPI_ERRHANDLER_NULL);
}

static void code_is_returned_after_the_handler(void)
{
    MPI_Errhandler handler;
    call(MPI_Comm_create_errhandler(on_error, &handler));
    call(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    expect_class(wrong_send(MPI_COMM_WORLD), MPI_ERR_RANK);
    call(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    call(MPI_Errhandler_free(&handler));
}

static void handler_is_told_the_world(void)
{
    MPI_Errhandler handler;
    forget();
    call(MPI_Comm_create_errhandler(on_error, &handler));
    call(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    wrong_send(MPI_COMM_WORLD);
    call(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    call(MPI_Errhandler_free(&handler));
    expect(last_comm == MPI_COMM_WORLD);
}

static void handler_is_told_its_communicator(void)
{
    MPI_Comm copy;
    MPI_Errhandler handler;
    forget();
    call(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    call(MPI_Comm_create_errhandler(on_error, &handler));
    call(MPI_Comm_set_errhandler(copy, handler));
    call(MPI_Errhandler_free(&handler));
    wrong_send(copy);
    expect(handled == 1 && last_comm == copy);
    call(MPI_Comm_free(&copy));
}

static void handler_of_self(void)
{
    MPI_Errhandler handler;
    forget();
    call(MPI_Comm_create_errhandler(on_error, &handler));
    call(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    wrong_send(MPI_COMM_SELF);
    expect(handled == 1 && last_comm == MPI_COMM_SELF);
    call(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    call(MPI_Errhandler_free(&handler));
}

static void handler_in_force(void)
{
    MPI_Errhandler own, found;
    call(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found));
    expect(found == MPI_ERRORS_RETURN);
    call(MPI_Errhandler_free(&found));
    call(MPI_Comm_create_errhandler(on_error, &own));
    call(MPI_Comm_set_errhandler(MPI_COMM_WORLD, own));
    call(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &found));
    expect(found == own);
    call(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    call(MPI_Errhandler_free(&found));
    call(MPI_Errhandler_free(&own));
}

static void handler_is_inherited(void)
{
    MPI_Comm half, copy;
    MPI_Errhandler handler, found;
    call(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half));
    call(MPI_Comm_create_errhandler(on_error, &handler));
    call(MPI_Comm_set_errhandler(half, handler));
    call(MPI_Comm_dup(half, &copy));
    call(MPI_Comm_get_errhandler(copy, &found));
    expect(found == handler);
    call(MPI_Errhandler_free(&found));
    call(MPI_Errhandler_free(&handler));
    call(MPI_Comm_free(&copy));
    call(MPI_Comm_free(&half));
}

static void called_by_the_program(void)
{
    MPI_Errhandler handler;
    forget();
    call(MPI_Comm_create_errhandler(on_error, &handler));
    call(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler));
    call(MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_TOPOLOGY));
    expect(handled == 1 && last_code == MPI_ERR_TOPOLOGY && last_comm == MPI_COMM_WORLD);
    call(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    call(MPI_Errhandler_free(&handler));
}

static void handler_of_a_window(void)
{
    int memory = 0;
    MPI_Win window;
    MPI_Errhandler handler;
    forget();
    call(MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    call(MPI_Win_create_errhandler(on_window_error, &handler));
    call(MPI_Win_set_errhandler(window, handler));
    call(MPI_Win_call_errhandler(window, MPI_ERR_RMA_SYNC));
    expect(handled == 1 && last_window == window && last_code == MPI_ERR_RMA_SYNC);
    call(MPI_Win_fence(0, window));
    MPI_Put(&rank, 1, MPI_INT, size, 0, 1, MPI_INT, window);
    expect(handled == 2 && last_window == window && class_of(last_code) == MPI_ERR_RANK);
    call(MPI_Win_fence(0, window));
    call(MPI_Errhandler_free(&handler));
    call(MPI_Win_free(&window));
}

static void handler_of_a_file(void)
{
    int code;
    MPI_File file;
    MPI_Errhandler handler;
    const char *name = shared_file();
    forget();
    call(MPI_File_create_errhandler(on_file_error, &handler));
    call(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE,
                       MPI_INFO_NULL,
                       &file));
    call(MPI_File_set_errhandler(file, handler));
    MPI_File_read(file, &code, 1, MPI_INT, MPI_STATUS_IGNORE);
    expect(handled == 1 && last_file == file && class_of(last_code) == MPI_ERR_ACCESS);
    call(MPI_File_close(&file));
    call(MPI_Errhandler_free(&handler));
}

static void handler_of_files_to_come(void)
{
    MPI_File file = MPI_FILE_NULL;
    MPI_Errhandler handler, before;
    forget();
    call(MPI_File_get_errhandler(MPI_FILE_NULL, &before));
    expect(before == MPI_ERRORS_RETURN);
    call(MPI_File_create_errhandler(on_file_error, &handler));
    call(MPI_File_set_errhandler(MPI_FILE_NULL, handler));
    MPI_File_open(MPI_COMM_SELF, "no such folder/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    expect(class_of(last_code) == MPI_ERR_NO_SUCH_FILE);
    expect(handled == 1 && last_file == MPI_FILE_NULL);
    call(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    call(MPI_Errhandler_free(&handler));
}

static void handler_of_a_session(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Errhandler handler;
    forget();
    call(MPI_Session_create_errhandler(on_session_error, &handler));
    if (call(MPI_Session_init(MPI_INFO_NULL, handler, &session)) != MPI_SUCCESS)
        return;
    MPI_Group_from_session_pset(session, "mpi://nowhere", &group);
    expect(handled == 1 && last_session == session);
    call(MPI_Session_finalize(&session));
    call(MPI_Errhandler_free(&handler));
}

static void classes_and_codes_of_the_program(void)
{
    int class = 0, code = 0, length = 0, found = 0;
    char text[MPI_MAX_ERROR_STRING] = "";
    call(MPI_Add_error_class(&class));
    call(MPI_Add_error_code(class, &code));
    call(MPI_Add_error_string(code, "the soup is cold"));
    call(MPI_Error_class(code, &found));
    call(MPI_Error_string(code, text, &length));
    expect(found == class && class > MPI_ERR_LASTCODE && strcmp(text, "the soup is cold") == 0);
#if MPI_VERSION >= 4
    call(MPI_Remove_error_string(code));
    call(MPI_Remove_error_code(code));
    call(MPI_Remove_error_class(class));
#endif
}

static void texts_of_classes(void)
{
    static const int classes[] = {MPI_SUCCESS, MPI_ERR_BUFFER, MPI_ERR_COUNT, MPI_ERR_TYPE, MPI_ERR_TAG, MPI_ERR_COMM,
                                  MPI_ERR_RANK, MPI_ERR_ROOT, MPI_ERR_GROUP, MPI_ERR_OP, MPI_ERR_TRUNCATE, MPI_ERR_WIN,
                                  MPI_ERR_FILE, MPI_ERR_SPAWN, MPI_ERR_PORT, MPI_ERR_NAME, MPI_ERR_SESSION};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        call(MPI_Error_string(classes[i], text, &length));
        expect(length > 0 && text[0] != '\0' && class_of(classes[i]) == classes[i]);
    }
}

static void wrong_rank(void)
{
    expect_class(wrong_send(MPI_COMM_WORLD), MPI_ERR_RANK);
    expect_class(MPI_Recv(&handled, 1, MPI_INT, size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_RANK);
}

static void wrong_tag(void)
{
    expect_class(MPI_Send(&rank, 1, MPI_INT, rank, -5, MPI_COMM_WORLD), MPI_ERR_TAG);
}

static void wrong_count(void)
{
    expect_class(MPI_Send(&rank, -1, MPI_INT, rank, 1, MPI_COMM_WORLD), MPI_ERR_COUNT);
}

static void wrong_type(void)
{
    expect_class(MPI_Send(&rank, 1, MPI_DATATYPE_NULL, rank, 1, MPI_COMM_WORLD), MPI_ERR_TYPE);
}

static void type_that_is_not_committed(void)
{
    int data[2] = {0};
    MPI_Datatype type;
    call(MPI_Type_contiguous(2, MPI_INT, &type));
    expect_class(MPI_Send(data, 1, type, MPI_PROC_NULL, 1, MPI_COMM_WORLD), MPI_ERR_TYPE);
    call(MPI_Type_free(&type));
}

static void wrong_communicator(void)
{
    int found = 0;
    expect_class(MPI_Send(&rank, 1, MPI_INT, 0, 1, MPI_COMM_NULL), MPI_ERR_COMM);
    expect_class(MPI_Comm_size(MPI_COMM_NULL, &found), MPI_ERR_COMM);
}

static void wrong_root(void)
{
    int value = 0;
    expect_class(MPI_Bcast(&value, 1, MPI_INT, size, MPI_COMM_WORLD), MPI_ERR_ROOT);
}

static void wrong_operation(void)
{
    int sum = 0;
    expect_class(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP);
}

static void wrong_group(void)
{
    int count = 0;
    expect_class(MPI_Group_size(MPI_GROUP_NULL, &count), MPI_ERR_GROUP);
}

static void wrong_request(void)
{
    int there = 0;
    expect(MPI_Request_free(&(MPI_Request){MPI_REQUEST_NULL}) != MPI_SUCCESS);
    expect(MPI_Cancel(&(MPI_Request){MPI_REQUEST_NULL}) != MPI_SUCCESS);
    call(MPI_Iprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE));
}

static void same_buffer_twice(void)
{
    int sum[2] = {0};
    expect_class(MPI_Allreduce(sum, sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_BUFFER);
}

static void errors_in_statuses(void)
{
    int in[2] = {0}, out[3] = {1, 2, 3};
    MPI_Request requests[2];
    MPI_Status statuses[2];
    call(MPI_Irecv(&in[0], 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &requests[0]));
    call(MPI_Irecv(&in[1], 1, MPI_INT, rank, 2, MPI_COMM_WORLD, &requests[1]));
    call(MPI_Send(out, 1, MPI_INT, rank, 1, MPI_COMM_WORLD));
    call(MPI_Send(out, 3, MPI_INT, rank, 2, MPI_COMM_WORLD));
    expect_class(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    expect(statuses[0].MPI_ERROR == MPI_SUCCESS && class_of(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE);
}

/* An error without a communicator goes to the handler of MPI_COMM_SELF. */
static void error_of_no_communicator(void)
{
    int bytes;
    MPI_Errhandler handler;
    forget();
    call(MPI_Comm_create_errhandler(on_error, &handler));
    call(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    MPI_Type_size(MPI_DATATYPE_NULL, &bytes);
    expect(handled == 1 && last_comm == MPI_COMM_SELF && class_of(last_code) == MPI_ERR_TYPE);
    call(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    call(MPI_Errhandler_free(&handler));
}

const struct check errors[] = {
    CHECK(own_handler_of_the_world),
    CHECK(code_is_returned_after_the_handler),
    CHECK(handler_is_told_the_world),
    CHECK(handler_is_told_its_communicator),
    CHECK(handler_of_self),
    CHECK(handler_in_force),
    CHECK(handler_is_inherited),
    CHECK(called_by_the_program),
    CHECK(handler_of_a_window),
    CHECK(handler_of_a_file),
    CHECK(handler_of_files_to_come),
    CHECK(handler_of_a_session),
    CHECK(classes_and_codes_of_the_program),
    CHECK(texts_of_classes),
    CHECK(wrong_rank),
    CHECK(wrong_tag),
    CHECK(wrong_count),
    CHECK(wrong_type),
    CHECK(type_that_is_not_committed),
    CHECK(wrong_communicator),
    CHECK(wrong_root),
    CHECK(wrong_operation),
    CHECK(wrong_group),
    CHECK(wrong_request),
    CHECK(same_buffer_twice),
    CHECK(errors_in_statuses),
    CHECK(error_of_no_communicator),
    {0},
};
