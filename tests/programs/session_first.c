/* Begins with a session, without MPI_Init, and says whether that was possible. A text is asked for in either case. */
#include <mpi.h>
#include <stdio.h>

int main(void)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0, class = 0;
    MPI_Session session;
    int code = MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Error_string(code, text, &length);
    MPI_Error_class(code, &class);
    printf("session: %s: %s\n",
           code == MPI_SUCCESS                       ? "begun"
           : class == MPI_ERR_UNSUPPORTED_OPERATION ? "refused as unsupported"
                                                    : "refused",
           text);
    if (code == MPI_SUCCESS)
        MPI_Session_finalize(&session);
    return 0;
}
