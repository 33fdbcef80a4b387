/* Attributes of communicators and windows, and those that MPI itself gives to MPI_COMM_WORLD. */
#include "conformance.h"

static int copies, deletions;
static MPI_Comm copied_from, deleted_from;

static int on_copy(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag)
{
    (void)key;
    copies++;
    copied_from = comm;
    *(void **)copy = value;
    *flag = *(int *)extra;
    return MPI_SUCCESS;
}

static int on_delete(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)key, (void)value, (void)extra;
    deletions++;
    deleted_from = comm;
    return MPI_SUCCESS;
}

static int with_key(int *extra)
{
    int key = MPI_KEYVAL_INVALID;
    copies = deletions = 0;
    copied_from = deleted_from = MPI_COMM_NULL;
    call(MPI_Comm_create_keyval(on_copy, on_delete, &key, extra));
    return key;
}

static void set_and_get(void)
{
    static int value = 3, yes = 1;
    int key = with_key(&yes), there = 1, *found = NULL;
    call(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &found, &there));
    expect(!there);
    call(MPI_Comm_set_attr(MPI_COMM_WORLD, key, &value));
    call(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &found, &there));
    expect(there && found == &value);
    call(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
    call(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &found, &there));
    expect(!there && deletions == 1 && copies == 0);
    call(MPI_Comm_free_keyval(&key));
    expect(key == MPI_KEYVAL_INVALID);
}

static void deletion_names_its_communicator(void)
{
    static int yes = 1;
    int key = with_key(&yes);
    call(MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL));
    call(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
    expect(deleted_from == MPI_COMM_WORLD);
    call(MPI_Comm_free_keyval(&key));
}

static void copy_names_its_communicator(void)
{
    static int yes = 1;
    int key = with_key(&yes);
    MPI_Comm copy;
    call(MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL));
    call(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    expect(copied_from == MPI_COMM_WORLD && copies == 1);
    call(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
    call(MPI_Comm_free(&copy));
    expect(deletions == 2);
    call(MPI_Comm_free_keyval(&key));
}

static void copied_by_a_duplicate(void)
{
    static int value = 4, yes = 1;
    int key = with_key(&yes), there = 0, *found = NULL;
    MPI_Comm first, second;
    call(MPI_Comm_dup(MPI_COMM_SELF, &first));
    call(MPI_Comm_set_attr(first, key, &value));
    call(MPI_Comm_dup(first, &second));
    call(MPI_Comm_get_attr(second, key, &found, &there));
    expect(there && found == &value && copies == 1 && copied_from == first);
    call(MPI_Comm_free(&second));
    call(MPI_Comm_free(&first));
    expect(deletions == 2);
    call(MPI_Comm_free_keyval(&key));
}

static void not_copied_where_the_program_says_so(void)
{
    static int value = 5, no = 0;
    int key = with_key(&no), there = 1, *found;
    MPI_Comm first, second;
    call(MPI_Comm_dup(MPI_COMM_SELF, &first));
    call(MPI_Comm_set_attr(first, key, &value));
    call(MPI_Comm_dup(first, &second));
    call(MPI_Comm_get_attr(second, key, &found, &there));
    expect(!there && copies == 1);
    call(MPI_Comm_free(&second));
    call(MPI_Comm_free(&first));
    expect(deletions == 1);
    call(MPI_Comm_free_keyval(&key));
}

static void copied_without_a_function(void)
{
    static int value = 6;
    int key, other, there = 0, *found;
    MPI_Comm first, second;
    call(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    call(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &other, NULL));
    call(MPI_Comm_dup(MPI_COMM_WORLD, &first));
    call(MPI_Comm_set_attr(first, key, &value));
    call(MPI_Comm_set_attr(first, other, &value));
    call(MPI_Comm_dup(first, &second));
    call(MPI_Comm_get_attr(second, key, &found, &there));
    expect(there && found == &value);
    call(MPI_Comm_get_attr(second, other, &found, &there));
    expect(!there);
    call(MPI_Comm_free(&first));
    call(MPI_Comm_free(&second));
    call(MPI_Comm_free_keyval(&key));
    call(MPI_Comm_free_keyval(&other));
}

static void replaced(void)
{
    static int value[2], yes = 1;
    int key = with_key(&yes), there = 0, *found = NULL;
    call(MPI_Comm_set_attr(MPI_COMM_WORLD, key, &value[0]));
    call(MPI_Comm_set_attr(MPI_COMM_WORLD, key, &value[1]));
    expect(deletions == 1);
    call(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &found, &there));
    expect(there && found == &value[1]);
    call(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
    call(MPI_Comm_free_keyval(&key));
}

static int refuse(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value;
    return *(int *)extra ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void deletion_that_fails(void)
{
    static int fails;
    int key;
    MPI_Comm copy;
    fails = 1;
    call(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &key, &fails));
    call(MPI_Comm_dup(MPI_COMM_SELF, &copy));
    call(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
    call(MPI_Comm_set_attr(copy, key, NULL));
    expect(MPI_Comm_delete_attr(copy, key) != MPI_SUCCESS);
    fails = 0;
    call(MPI_Comm_free(&copy));
    call(MPI_Comm_free_keyval(&key));
}

/* An attribute that MPI gives, as an integer; -1 where it is not there. */
static int of_mpi(int key)
{
    int there = 0, *value = NULL;
    call(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &there));
    return there ? *value : -1;
}

static void highest_tag(void)
{
    int own = of_mpi(MPI_TAG_UB), least = 0;
    call(MPI_Allreduce(&own, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    expect(own >= 32767 && own == least);
}

static void host_and_input(void)
{
    int host = of_mpi(MPI_HOST), io = of_mpi(MPI_IO);
    expect(host == MPI_PROC_NULL || (host >= 0 && host < size));
    expect(io != -1 && (io == MPI_ANY_SOURCE || io == MPI_PROC_NULL || (io >= 0 && io < size)));
}

static void clocks_agree_or_not(void)
{
    int there = 0, *value = NULL;
    call(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &there));
    expect(!there || *value == 0 || *value == 1);
}

static void size_of_the_universe(void)
{
    int there = 0, *value = NULL;
    call(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &there));
    expect(!there || *value >= size);
}

static void number_of_the_application(void)
{
    int there = 0, *value = NULL;
    call(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &there));
    expect(!there || *value == 0);
}

static void last_used_code(void)
{
    int before = of_mpi(MPI_LASTUSEDCODE), class = 0;
    expect(before >= MPI_ERR_LASTCODE);
    call(MPI_Add_error_class(&class));
    expect(class > MPI_ERR_LASTCODE && of_mpi(MPI_LASTUSEDCODE) >= class);
#if MPI_VERSION >= 4
    call(MPI_Remove_error_class(class));
#endif
}

static void attributes_of_mpi_are_not_to_be_set(void)
{
    int value = 1;
    expect(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value) != MPI_SUCCESS);
}

static int window_copies, window_deletions;

static int on_window_copy(MPI_Win window, int key, void *extra, void *value, void *copy, int *flag)
{
    (void)window, (void)key, (void)extra, (void)value, (void)copy;
    window_copies++;
    *flag = 0;
    return MPI_SUCCESS;
}

static int on_window_delete(MPI_Win window, int key, void *value, void *extra)
{
    (void)window, (void)key, (void)extra;
    window_deletions += *(int *)value;
    return MPI_SUCCESS;
}

static void attributes_of_windows(void)
{
    static int value = 1;
    int memory[2], key, there = 0, *found = NULL;
    MPI_Win window;
    window_copies = window_deletions = 0;
    call(MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    call(MPI_Win_create_keyval(on_window_copy, on_window_delete, &key, NULL));
    call(MPI_Win_set_attr(window, key, &value));
    call(MPI_Win_get_attr(window, key, &found, &there));
    expect(there && found == &value);
    call(MPI_Win_delete_attr(window, key));
    call(MPI_Win_get_attr(window, key, &found, &there));
    expect(!there);
    call(MPI_Win_set_attr(window, key, &value));
    call(MPI_Win_free(&window));
    expect(window_deletions == 2 && window_copies == 0);
    call(MPI_Win_free_keyval(&key));
}

const struct check caching[] = {
    CHECK(set_and_get),
    CHECK(deletion_names_its_communicator),
    CHECK(copy_names_its_communicator),
    CHECK(copied_by_a_duplicate),
    CHECK(not_copied_where_the_program_says_so),
    CHECK(copied_without_a_function),
    CHECK(replaced),
    CHECK(deletion_that_fails),
    CHECK(highest_tag),
    CHECK(host_and_input),
    CHECK(clocks_agree_or_not),
    CHECK(size_of_the_universe),
    CHECK(number_of_the_application),
    CHECK(last_used_code),
    CHECK(attributes_of_mpi_are_not_to_be_set),
    CHECK(attributes_of_windows),
    {0},
};
