/* A program that knows nothing of MPI and loads a library that does, as Python does: host PLUGIN */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plugin = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
        puts(dlerror());
        return 1;
    }
    int (*run)(void);
    *(void **)&run = dlsym(plugin, "run");
    return run();
}
