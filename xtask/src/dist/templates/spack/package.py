# Built from a checkout of the source: spack repo add PREFIX/share/pcm/spack && cd CHECKOUT && spack dev-build pcm
from spack.package import *


class Pcm(Package):
    """Malleability middleware for MPI: resizes running jobs, moves their ranks, recovers them after a crash."""

    license("MIT OR Apache-2.0")
    manual_download = True

    version("@VERSION@")

    depends_on("c", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("llvm+clang", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    depends_on("py-numpy", type="run")
    depends_on("mpich@4.2: device=ch4", type=("build", "link", "run"))

    def setup_build_environment(self, env):
        env.set("PCM_MPI", self.spec["mpich"].prefix)
        env.set("LIBCLANG_PATH", self.spec["llvm"].prefix.lib)

    def setup_run_environment(self, env):
        env.prepend_path("PYTHONPATH", join_path(self.prefix, "lib/python3/dist-packages"))

    def install(self, spec, prefix):
        which("cargo", required=True)("xtask", "dist")
        install_tree("target/dist/prefix", prefix, symlinks=True)
