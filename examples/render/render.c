/*
 * render: the frames of a POV-Ray animation, rendered by a farm.
 *
 * Each rank runs one povray at a time, on a frame that no other rank has. In each iteration it waits until povray has
 * computed for its part of SLICE, so that an iteration is the same work on any number of ranks. Then all ranks learn
 * from each other which frames are finished and which are begun; every one finds in the same lists what is next for
 * whom, so there is no master. A frame that a rank leaves unfinished is in no list, and the next idle rank takes it. A
 * finished frame is a file that was given its name when it was whole: what is in the folder is not rendered again.
 */
#define _GNU_SOURCE /* prctl, clock_getcpuclockid */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pcm.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    FRAMES_MAX = 100000,
    TRIES = 3,     /* of a frame, before the farm goes on without it */
    HOPELESS = 3,  /* frames without a picture before any has one: the scene is at fault */
    RENDERED = -1, /* in place of the number of failed tries */
    NONE = -1,     /* in place of a frame: idle */
    UNABLE = -2,   /* there is no povray here */
    PICTURE = 80,  /* signs for all frames */
    PATH = 4096
};

static const double SLICE = 0.04, SLICES_MAX = 2, REST = 1, SHOWN_EVERY = 1, SAID_EVERY = 30;
static const unsigned long ROOM_MIN = 1 << 20; /* a disk with less is full */

/* What all ranks know of the film. */
struct film {
    int frames;
    signed char *tries; /* failed ones of each frame, or RENDERED */
    long work[2];       /* iterations, and frames that were finished in them */
};

/* What a rank tells the others: the frame that it renders, the one that ended just now, and how. */
struct report {
    int frame, ended;
    enum { FAILED, FINISHED, WAS_THERE, NO_ROOM } how;
    float seconds;
};

/* A frame that is finished, and where. */
struct rendered {
    int frame;
    char node[MPI_MAX_PROCESSOR_NAME];
};

/* What this rank does. */
struct task {
    const char *scene, *folder;
    char **options; /* for povray, as the user gave them */
    char node[MPI_MAX_PROCESSOR_NAME];
    int frames, digits, frame;
    pid_t rank, povray; /* processes: this one, and povray or 0 */
    double begun, quiet_until;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "render: %s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *checked(void *memory)
{
    if (memory == NULL)
        fail("memory", strerror(errno));
    return memory;
}

static void rest(double seconds)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (long)seconds))}, NULL);
}

/* ---- files -------------------------------------------------------------------------------------------------- */

/* A finished frame. */
static void frame_path(const struct task *task, int frame, char path[PATH])
{
    snprintf(path, PATH, "%s/frame-%0*d.ppm", task->folder, task->digits, frame);
}

/* What a process is making: `end` is what POV-Ray appends, or that of its messages. */
static void part_path(const struct task *task, const char *end, char path[PATH])
{
    snprintf(path, PATH, "%s/.part-%s-%d-%s", task->folder, task->node, (int)task->rank, end);
}

static void picture_path(const struct task *task, char path[PATH])
{
    char end[32];
    snprintf(end, sizeof end, "%0*d.ppm", task->digits, task->frame);
    part_path(task, end, path);
}

static int has_room(const struct task *task)
{
    struct statvfs disk;
    return statvfs(task->folder, &disk) != 0 || disk.f_bavail * disk.f_frsize >= ROOM_MIN;
}

static void wait_for_room(struct task *task)
{
    if (MPI_Wtime() >= task->quiet_until) {
        fprintf(stderr, "render: frame %d: %s is full; waiting for room\n", task->frame, task->folder);
        task->quiet_until = MPI_Wtime() + SAID_EVERY;
    }
    rest(REST);
}

/* Prints the line in which povray says what is wrong. */
static void explain(const struct task *task, int status, FILE *messages)
{
    char line[512], cause[512];
    snprintf(cause, sizeof cause, "povray returned %d and made no picture\n", WEXITSTATUS(status));
    while (messages != NULL && fgets(line, sizeof line, messages) != NULL && strstr(cause, "rror") == NULL)
        if (line[0] != '\n')
            strcpy(cause, line);
    if (WIFSIGNALED(status))
        snprintf(cause, sizeof cause, "povray was ended by signal %d\n", WTERMSIG(status));
    fprintf(stderr, "render: frame %d: %s", task->frame, cause);
}

/* ---- one povray --------------------------------------------------------------------------------------------- */

/* In the new process: becomes povray, which ends with its rank. */
static void become_povray(const struct task *task)
{
    char scene[PATH], output[PATH], messages[PATH], last[32], first[32], end[32], *words[64];
    snprintf(scene, sizeof scene, "+I\"%s\"", task->scene);
    part_path(task, "", messages);
    snprintf(output, sizeof output, "+O\"%.*s\"", PATH - 5, messages);
    part_path(task, "log", messages);
    snprintf(last, sizeof last, "+KFF%d", task->frames);
    snprintf(first, sizeof first, "+SF%d", task->frame);
    snprintf(end, sizeof end, "+EF%d", task->frame);
    char *own[] = {"povray", scene, output, "-D", "+FP", "+WT1", "+KFI1", last, first, end};
    size_t count = sizeof own / sizeof *own;
    memcpy(words, own, sizeof own);
    for (char **option = task->options; *option != NULL && count + 1 < sizeof words / sizeof *words; option++)
        words[count++] = *option;
    words[count] = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int log = open(messages, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (getppid() != task->rank || (log < 0 && errno != ENOSPC))
        _exit(1);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execvp("povray", words);
    _exit(127);
}

static void begin(struct task *task, int frame)
{
    char path[PATH];
    task->frame = frame;
    task->begun = MPI_Wtime();
    frame_path(task, frame, path);
    if (access(path, F_OK) == 0)
        return; /* no povray is needed: `watch` reports it */
    task->povray = fork();
    if (task->povray < 0)
        fail("fork", strerror(errno));
    if (task->povray == 0)
        become_povray(task);
}

/* CPU time that povray has used. */
static double used(const struct task *task)
{
    clockid_t clock;
    struct timespec time;
    if (clock_getcpuclockid(task->povray, &clock) != 0 || clock_gettime(clock, &time) != 0)
        return 0;
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Puts a finished frame in its place, or says why there is none. */
static struct report end(struct task *task, int status)
{
    char made[PATH], place[PATH], log[PATH];
    struct report report = {.frame = NONE, .ended = task->frame, .seconds = (float)(MPI_Wtime() - task->begun)};
    picture_path(task, made);
    frame_path(task, task->frame, place);
    part_path(task, "log", log);
    if (status == 0 && rename(made, place) == 0) {
        report.how = FINISHED;
    } else if (!has_room(task)) {
        report.how = NO_ROOM;
        wait_for_room(task);
    } else {
        FILE *messages = fopen(log, "r");
        explain(task, status, messages);
        if (messages != NULL)
            fclose(messages);
    }
    unlink(made);
    unlink(log);
    task->povray = 0;
    task->frame = NONE;
    return report;
}

/* Waits until povray has computed for `seconds`, or has ended. */
static struct report watch(struct task *task, double seconds)
{
    if (task->frame > 0 && task->povray <= 0) {
        struct report report = {.frame = NONE, .ended = task->frame, .how = WAS_THERE};
        task->frame = NONE;
        return report;
    }
    double begin = MPI_Wtime(), used_before = task->povray > 0 ? used(task) : 0;
    for (;;) {
        int status = 0;
        if (task->povray > 0 && waitpid(task->povray, &status, WNOHANG) == task->povray)
            return end(task, status);
        double waited = MPI_Wtime() - begin;
        if (waited >= SLICES_MAX * seconds || (waited >= seconds && task->povray <= 0) ||
            (task->povray > 0 && used(task) - used_before >= seconds))
            return (struct report){.frame = task->frame, .ended = NONE};
        rest(0.001);
    }
}

/* A rank that leaves, or is not needed, gives its frame back. */
static void give_back(void *own)
{
    struct task *task = own;
    char path[PATH];
    if (task->povray <= 0)
        return;
    kill(task->povray, SIGKILL);
    waitpid(task->povray, NULL, 0);
    picture_path(task, path);
    unlink(path);
    part_path(task, "log", path);
    unlink(path);
    task->povray = 0;
}

/* ---- the farm ----------------------------------------------------------------------------------------------- */

static int is_open(const struct film *film, int frame)
{
    return film->tries[frame - 1] != RENDERED && film->tries[frame - 1] < TRIES;
}

/* Frames that are still to be rendered; none if that is hopeless. */
static int count_open(const struct film *film)
{
    int open = 0, rendered = 0;
    for (int frame = 1; frame <= film->frames; frame++) {
        open += is_open(film, frame);
        rendered += film->tries[frame - 1] == RENDERED;
    }
    return rendered == 0 && film->frames - open >= HOPELESS ? 0 : open;
}

/* Whether the farm can go on: somewhere there is a povray. */
static int is_able(const struct report *reports, int size)
{
    for (int rank = 0; rank < size; rank++)
        if (reports[rank].frame != UNABLE)
            return 1;
    return 0;
}

static int is_begun(const struct report *reports, int size, int frame)
{
    for (int rank = 0; rank < size; rank++)
        if (reports[rank].frame == frame)
            return 1;
    return 0;
}

/* Takes in what has ended, and gives idle ranks the next frames. */
static void divide(struct film *film, struct report *reports, int size)
{
    int next = 1;
    film->work[0]++;
    for (int rank = 0; rank < size; rank++) {
        const struct report *report = &reports[rank];
        if (report->ended == NONE)
            continue;
        if (report->how == FINISHED || report->how == WAS_THERE)
            film->tries[report->ended - 1] = RENDERED;
        if (report->how == FAILED)
            film->tries[report->ended - 1]++;
        film->work[1] += report->how == FINISHED;
    }
    for (int rank = 0; rank < size; rank++) {
        if (reports[rank].frame != NONE)
            continue;
        while (next <= film->frames && (!is_open(film, next) || is_begun(reports, size, next)))
            next++;
        if (next <= film->frames)
            reports[rank].frame = next;
    }
}

/* One sign for some frames: the rank that renders one, or what became of them. */
static char sign(const struct film *film, const struct report *reports, int size, int from, int to)
{
    char sign = '#';
    for (int frame = from; frame < to; frame++)
        if (film->tries[frame - 1] >= TRIES)
            sign = '!';
        else if (film->tries[frame - 1] != RENDERED)
            sign = '.';
    for (int rank = 0; rank < size; rank++)
        if (reports[rank].frame >= from && reports[rank].frame < to)
            return "0123456789abcdefghijklmnopqrstuvwxyz"[rank % 36];
    return sign;
}

/* Prints which rank renders what. */
static void show(const struct film *film, const struct report *reports, int size)
{
    char picture[PICTURE + 1] = "";
    int signs = film->frames < PICTURE ? film->frames : PICTURE;
    for (int i = 0; i < signs; i++) {
        int from = 1 + (int)((long)i * film->frames / signs), to = 1 + (int)((long)(i + 1) * film->frames / signs);
        picture[i] = sign(film, reports, size, from, to);
    }
    printf("render: [%s] %d to do, %d ranks\n", picture, count_open(film), size);
    fflush(stdout);
}

/* ---- the end ------------------------------------------------------------------------------------------------ */

static int compare_nodes(const void *one, const void *other)
{
    return strcmp(((const struct rendered *)one)->node, ((const struct rendered *)other)->node);
}

/* Prints how much each node has rendered. */
static void tell_nodes(const struct rendered *own, size_t count)
{
    int rank, size, bytes = (int)(count * sizeof *own), all = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int *lengths = checked(calloc(2 * (size_t)size, sizeof *lengths)), *places = lengths + size;
    MPI_Gather(&bytes, 1, MPI_INT, lengths, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < size; i++) {
        places[i] = all;
        all += lengths[i];
    }
    struct rendered *list = checked(malloc((size_t)all + 1));
    MPI_Gatherv(own, bytes, MPI_BYTE, list, lengths, places, MPI_BYTE, 0, MPI_COMM_WORLD);
    size_t total = (size_t)all / sizeof *list;
    qsort(list, rank == 0 ? total : 0, sizeof *list, compare_nodes);
    for (size_t i = 0, first = 0; rank == 0 && i < total; i++)
        if (i + 1 == total || strcmp(list[i].node, list[i + 1].node) != 0) {
            printf("render: %s rendered %zu frames\n", list[i].node, i + 1 - first);
            first = i + 1;
        }
    free(list);
    free(lengths);
}

/* Makes the film of all frames. */
static void assemble(const struct task *task)
{
    char frames[PATH], film[PATH];
    snprintf(frames, sizeof frames, "%s/frame-%%0%dd.ppm", task->folder, task->digits);
    snprintf(film, sizeof film, "%s/film.mp4", task->folder);
    pid_t ffmpeg = fork();
    if (ffmpeg == 0) {
        execlp("ffmpeg", "ffmpeg", "-loglevel", "error", "-y", "-nostdin", "-framerate", "25", "-i", frames, "-pix_fmt",
               "yuv420p", film, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    if (ffmpeg < 0 || waitpid(ffmpeg, &status, 0) != ffmpeg || status != 0)
        fprintf(stderr, "render: no film: %s\n",
                WIFEXITED(status) && WEXITSTATUS(status) == 127 ? "install ffmpeg" : "ffmpeg has failed");
    else
        printf("render: the film is %s\n", film);
}

/* Removes what killed processes were making. */
static void sweep(const struct task *task)
{
    char path[PATH];
    DIR *folder = opendir(task->folder);
    for (struct dirent *file; folder != NULL && (file = readdir(folder)) != NULL;)
        if (strncmp(file->d_name, ".part-", 6) == 0) {
            snprintf(path, sizeof path, "%s/%s", task->folder, file->d_name);
            unlink(path);
        }
    if (folder != NULL)
        closedir(folder);
}

/* Says what is finished; 0 if all is. */
static int conclude(const struct task *task, const struct film *film, double busy)
{
    int rank, size, missing = 0;
    double all_busy = 0;
    MPI_Reduce(&busy, &all_busy, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int frame = 1; frame <= film->frames; frame++)
        missing += film->tries[frame - 1] != RENDERED;
    if (rank != 0)
        return missing > 0;
    sweep(task);
    if (missing == 0)
        assemble(task);
    else
        fprintf(stderr, "render: %d frames could not be rendered\n", missing);
    printf("render: frames %d missing %d ranks %d, povray ran for %.1f s\n", film->frames, missing, size, all_busy);
    return missing > 0;
}

/* ---- main --------------------------------------------------------------------------------------------------- */

/* A rank that ends leaves its time to another. */
static int merge(void *own, void *mine, const void *other)
{
    (void)own;
    *(double *)mine += *(const double *)other;
    return 0;
}

/* Where a record of a finished frame belongs. */
static int keeper(void *own, const void *record, int ranks)
{
    (void)own;
    return ((const struct rendered *)record)->frame % ranks;
}

static void note(const struct task *task, const struct report *report)
{
    size_t count = 0;
    pcm_record_data("rendered", &count);
    struct rendered *all = checked(pcm_records_resize("rendered", count + 1));
    all[count] = (struct rendered){.frame = report->ended};
    memcpy(all[count].node, task->node, sizeof task->node);
}

static int has_povray(const struct task *task)
{
    if (system("command -v povray >/dev/null") == 0)
        return 1;
    fprintf(stderr, "render: there is no povray on %s, so it renders nothing\n", task->node);
    return 0;
}

static struct task read_arguments(int argc, char **argv)
{
    struct task task = {.frame = NONE};
    const char *node = getenv("PCM_NODE");
    int length;
    if (argc < 4)
        fail("usage", "render SCENE FRAMES FOLDER [OPTION OF POVRAY]...");
    task.scene = argv[1];
    task.frames = atoi(argv[2]);
    task.folder = argv[3];
    task.options = argv + 4;
    task.digits = snprintf(NULL, 0, "%d", task.frames);
    task.rank = getpid();
    MPI_Get_processor_name(task.node, &length);
    if (node != NULL) /* several nodes of a cluster may be one machine */
        snprintf(task.node, sizeof task.node, "%s", node);
    if (task.frames < 1 || task.frames > FRAMES_MAX)
        fail(argv[2], "is not a number of frames");
    if (access(task.scene, R_OK) != 0)
        fail(task.scene, strerror(errno));
    if (mkdir(task.folder, 0777) != 0 && errno != EEXIST)
        fail(task.folder, strerror(errno));
    return task;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    struct task task = read_arguments(argc, argv);
    struct film film = {.frames = task.frames, .tries = checked(calloc((size_t)task.frames, 1))};
    double busy = 0; /* seconds in which this rank's povray made pictures */
    pcm_value("tries", film.tries, (size_t)film.frames);
    pcm_value("work", film.work, sizeof film.work);
    pcm_records("rendered", sizeof(struct rendered), keeper, NULL);
    pcm_value_per_rank("busy", &busy, sizeof busy, merge, NULL, NULL);
    pcm_on_exit(give_back, &task);
    if (pcm_start() != PCM_OK)
        fail("libpcm", pcm_last_error());
    if (!has_povray(&task))
        task.frame = UNABLE;

    int rank, size;
    double shown = 0;
    struct report *reports = NULL;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while (count_open(&film) > 0) {
        if (pcm_iterate() == PCM_CHANGED) {
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Comm_size(MPI_COMM_WORLD, &size);
        }
        reports = checked(realloc(reports, (size_t)size * sizeof *reports));
        struct report own = watch(&task, SLICE / size);
        MPI_Allgather(&own, sizeof own, MPI_BYTE, reports, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
        if (!is_able(reports, size))
            fail("povray", "no node has it: install it, on Debian with `apt install povray`");
        divide(&film, reports, size);
        if (own.ended != NONE && own.how == FINISHED) {
            note(&task, &own);
            busy += (double)own.seconds;
        }
        if (own.frame == NONE && reports[rank].frame != NONE)
            begin(&task, reports[rank].frame);
        if (rank == 0 && MPI_Wtime() - shown >= SHOWN_EVERY) {
            show(&film, reports, size);
            shown = MPI_Wtime();
        }
        if (film.work[1] > 0)
            pcm_remaining(count_open(&film) * film.work[0] / film.work[1] + 1);
    }
    give_back(&task);
    size_t count = 0;
    const struct rendered *rendered = pcm_record_data("rendered", &count);
    tell_nodes(rendered, count);
    int failed = conclude(&task, &film, busy);
    free(reports);
    free(film.tries);
    MPI_Finalize();
    return failed;
}
