/* Runs a program with the page and the channel of its rank, which Open MPI's launcher would not pass on as descriptors:
   as_rank FOLDER PROGRAM [ARGUMENT]... */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PAGE = 200, CHANNEL = 201 };

int main(int argc, char **argv)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[sizeof address.sun_path];
    if (argc < 3 || !rank)
        return 2;
    snprintf(path, sizeof path, "%s/page-%s", argv[1], rank);
    int page = open(path, O_RDWR);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/channel-%s", argv[1], rank);
    int channel = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (connect(channel, (struct sockaddr *)&address, sizeof address) || dup2(page, PAGE) < 0 ||
        dup2(channel, CHANNEL) < 0 || setenv("PCM_PROCESS", rank, 1)) {
        perror("as_rank");
        return 2;
    }
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}
