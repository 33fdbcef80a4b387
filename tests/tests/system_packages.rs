//! Packages, each installed as its users do: a tar file, a wheel, one for Debian; and what finds a prefix: pkg-config,
//! CMake, a module file, a recipe for Spack.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use tests::{
    binaries::mpiexec,
    cluster::LIMIT,
    example::{mpi_compiler, source},
    heat2d::{Closing, Plate},
    limited,
    packages::{Stranger, must, package, unpacked},
    skip::cannot_run,
};

/// From `pip install` to the first change.
const FIRST_CHANGE_MAX: Duration = Duration::from_secs(60);

/// Libraries that every Linux with the GNU C library has, and MPI, which comes from a package of its own.
const MAY_BE_NEEDED: [&str; 5] = [
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "libmpi.so.12",
];

/// No contraction to fused operations: C and the test must compute the same bits.
const FLAGS: [&str; 2] = ["-O2", "-ffp-contract=off"];

fn is_in_path(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    found.is_ok_and(|output| output.status.success())
}

/// As [`is_in_path`], and says that the test cannot run where it is not.
fn is_there(program: &str) -> bool {
    let is_found = is_in_path(program);
    if !is_found {
        cannot_run(&format!(
            "{program} is missing: install it, or test through `cargo xtask test` as root"
        ));
    }
    is_found
}

/// Under plain mpiexec, it computes what it should, with the library of this prefix.
fn assert_right(program: &Path, prefix: &Path) {
    let plate = Plate {
        rows: 32,
        cols: 24,
        iterations: 40,
        sleep_us: 0,
    };
    let mut command = Command::new(mpiexec());
    command
        .env_remove("LD_LIBRARY_PATH")
        .args(["-n", "2"])
        .arg(program)
        .args(plate.arguments());
    let outcome = must(&mut command);
    assert_eq!(Closing::read(&outcome.stdout).checksum, plate.checksum());
    let linked = must(Command::new("ldd").env_remove("LD_LIBRARY_PATH").arg(program)).stdout;
    let library = linked
        .lines()
        .find_map(|line| line.trim().strip_prefix("libpcm.so.0 => "));
    let library = library
        .and_then(|line| line.split(" (0x").next())
        .expect("it is linked with libpcm");
    let own = prefix.join("lib/libpcm.so.0").canonicalize().expect("a library");
    assert_eq!(Path::new(library).canonicalize().expect("a library"), own);
}

#[test]
fn the_tar_file_works_at_any_path_for_a_user_without_rust_and_compiler() {
    let Some(stranger) = Stranger::come() else { return };
    let prefix = unpacked(stranger.folder());
    let program = stranger.folder().join("heat2d");
    let mut compiler = Command::new(prefix.join("bin/pcmcc"));
    must(
        compiler
            .args(FLAGS)
            .arg("-o")
            .arg(&program)
            .arg(source("heat2d/heat2d.c")),
    );
    assert_right(&program, &prefix);
    // Whatever the prefix was called when the program was compiled.
    let moved = stranger.folder().join("another prefix");
    fs::rename(&prefix, &moved).expect("our own folder");
    let bin = moved.join("bin");
    let cc = limited::run(
        stranger
            .command(&bin, "/bin/sh")
            .args(["-c", "command -v cc cargo python3"]),
        LIMIT,
    );
    assert!(!cc.status.success(), "{cc:?}");
    let plate = Plate {
        rows: 64,
        cols: 48,
        iterations: 3000,
        sleep_us: 2000,
    };
    stranger.grows(&bin, &[program.into_os_string()], plate, || ());
}

#[test]
fn the_tar_file_is_in_order_of_nobody_and_names_no_folder_of_the_build() {
    let folder = tempfile::tempdir().expect("a folder");
    let listed = must(Command::new("tar").arg("-tvzf").arg(package("-linux.tar.gz"))).stdout;
    let names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .collect();
    assert!(listed.lines().all(|line| line.contains(" 0/0 ")), "{listed}");
    let below = |name: &&str| name.contains("/share/man/man1/");
    let pages: Vec<&str> = names.iter().copied().filter(below).collect();
    let mut sorted = pages.clone();
    sorted.sort_unstable();
    assert!(pages.len() > 30 && pages == sorted, "{pages:?}");

    let prefix = unpacked(folder.path());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a checkout");
    for name in names {
        let file = prefix.join(name.split_once('/').expect("one folder at the top").1);
        let Ok(text) = fs::read_to_string(&file) else { continue };
        assert!(!text.contains(root.to_str().expect("UTF-8")), "{}", file.display());
    }
    assert_linked_with_the_system(&prefix);
}

/// What programs and libraries below a folder need; returns the newest version of the C library.
fn assert_linked_with_the_system(folder: &Path) -> (u32, u32) {
    let find = "find . -type f -exec sh -c 'head -c 4 \"$1\" | grep -q ELF' sh {} ';' -print";
    let found = must(Command::new("sh").args(["-c", find]).current_dir(folder)).stdout;
    assert!(found.lines().count() >= 6, "{found}");
    let mut newest = (0, 0);
    for file in found.lines() {
        let mut readelf = Command::new("readelf");
        let told = must(readelf.env("LC_ALL", "C").args(["-dVW", file]).current_dir(folder)).stdout;
        let of = |kind: &str| -> BTreeSet<String> {
            let lines = told.lines().filter(|line| line.contains(kind));
            lines
                .filter_map(|line| Some(line.split_once('[')?.1.trim_end_matches(']').to_owned()))
                .collect()
        };
        let foreign: Vec<String> = of("(NEEDED)")
            .into_iter()
            .filter(|name| !MAY_BE_NEEDED.contains(&name.as_str()))
            .collect();
        assert!(foreign.is_empty(), "{file} needs {foreign:?}");
        let paths: Vec<String> = of("PATH)").into_iter().collect();
        assert!(
            paths
                .iter()
                .all(|path| path.split(':').all(|one| one.starts_with("$ORIGIN"))),
            "{file}: {paths:?}"
        );
        for version in told.split("GLIBC_").skip(1) {
            let numbers = version.split(|letter: char| !letter.is_ascii_digit());
            let numbers: Vec<u32> = numbers.map_while(|part| part.parse().ok()).collect();
            if let [major, minor, ..] = numbers[..] {
                newest = newest.max((major, minor));
            }
        }
    }
    newest
}

#[test]
fn a_program_is_compiled_with_what_pkg_config_says() {
    if !is_there("pkg-config") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = unpacked(folder.path());
    let program = folder.path().join("heat2d");
    let script = "eval \"set -- $(pkg-config --cflags --libs pcm)\"; exec \"$CC\" $FLAGS -o \"$OUT\" \"$IN\" \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    command.env("CC", mpi_compiler("mpicc")).env("FLAGS", FLAGS.join(" "));
    must(command.env("OUT", &program).env("IN", source("heat2d/heat2d.c")));
    assert_right(&program, &prefix);
    let version =
        must(command_of("pkg-config", &["--modversion", "pcm"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    assert_eq!(version.stdout.trim(), env!("CARGO_PKG_VERSION"));
}

fn command_of(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

#[test]
fn a_program_is_compiled_by_cmake() {
    if !is_there("cmake") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = unpacked(folder.path());
    let project = folder.path().join("a project");
    fs::create_dir(&project).expect("a folder of the test");
    let text = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject(heat C)\nfind_package(pcm @VERSION@ REQUIRED)\n\
         add_executable(heat2d {})\ntarget_compile_options(heat2d PRIVATE {})\n\
         target_link_libraries(heat2d pcm::pcm m)\n",
        source("heat2d/heat2d.c").display(),
        FLAGS.join(" ")
    );
    let write = |version: &str| {
        fs::write(project.join("CMakeLists.txt"), text.replace("@VERSION@", version)).expect("a file of the test");
    };
    let configure = || {
        let mut cmake = command_of("cmake", &["-S", ".", "-B", "build"]);
        cmake.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
        cmake.arg(format!("-DMPI_C_COMPILER={}", mpi_compiler("mpicc").display()));
        cmake.current_dir(&project);
        cmake
    };
    write("9.0");
    let refused = limited::run(&mut configure(), LIMIT);
    assert!(refused.stderr.contains("9.0"), "{refused:?}");
    assert!(!refused.status.success(), "{refused:?}");
    write("0.1");
    must(&mut configure());
    must(command_of("cmake", &["--build", "build"]).current_dir(&project));
    assert_right(&project.join("build/heat2d"), &prefix);
}

/// A Python that another user can run, and that makes environments.
fn python() -> Option<PathBuf> {
    let python = PathBuf::from("/usr/bin/python3");
    let works = command_of("/usr/bin/python3", &["-c", "import venv, ensurepip"]).output();
    if works.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    cannot_run("/usr/bin/python3 makes no environments: install python3-venv");
    None
}

#[test]
fn a_python_program_grows_within_a_minute_of_pip_install() {
    let (Some(python), Some(stranger)) = (python(), Stranger::come()) else {
        return;
    };
    let wheels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/wheels");
    if !wheels.is_dir() {
        cannot_run("wheels of PyPI are missing: they come with `cargo xtask test`");
        return;
    }
    let environment = stranger.folder().join("an environment");
    let bin = environment.join("bin");
    must(
        stranger
            .command(Path::new("/usr/bin"), python)
            .args(["-m", "venv"])
            .arg(&environment),
    );
    let program = stranger.folder().join("heat2d.py");
    fs::copy(source("heat2d/heat2d.py"), &program).expect("a file of the test");

    let begin = Instant::now();
    let mut pip = stranger.command(&bin, bin.join("pip"));
    pip.args(["install", "--quiet", "--no-index", "--find-links"])
        .arg(&wheels);
    must(pip.arg(package(".whl")).args(["mpich", "mpi4py"]));
    let installed = begin.elapsed();
    let plate = Plate {
        rows: 64,
        cols: 48,
        iterations: 1500,
        sleep_us: 10_000,
    };
    let words: [OsString; 2] = ["python".into(), program.into()];
    let mut to_change = Duration::MAX;
    // Nothing of the system is in the path: neither a compiler nor another MPI.
    stranger.grows(&bin, &words, plate, || to_change = begin.elapsed());
    println!(
        "pip install {:.1} s, first change after {:.1} s",
        installed.as_secs_f64(),
        to_change.as_secs_f64()
    );
    assert!(to_change <= FIRST_CHANGE_MAX, "{to_change:?}");
}

#[test]
fn the_wheel_needs_no_more_than_its_name_says() {
    let wheel = package(".whl");
    let folder = tempfile::tempdir().expect("a folder");
    must(
        command_of("python3", &["-m", "zipfile", "-e"])
            .arg(&wheel)
            .arg(folder.path()),
    );
    let (major, minor) = assert_linked_with_the_system(folder.path());
    let name = wheel.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    assert!(
        name.contains(&format!("-py3-none-manylinux_{major}_{minor}_")),
        "{name} needs {major}.{minor}"
    );
    // Every file is in the list, with its sum, as pip checks it.
    let check = "import base64, csv, hashlib, sys, zipfile\n\
                 archive = zipfile.ZipFile(sys.argv[1])\n\
                 assert archive.testzip() is None\n\
                 names = set(archive.namelist())\n\
                 record = next(name for name in names if name.endswith('.dist-info/RECORD'))\n\
                 for name, sum, size in csv.reader(archive.read(record).decode().splitlines()):\n\
                 \x20   names.remove(name)\n\
                 \x20   if name != record:\n\
                 \x20       digest = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest())\n\
                 \x20       assert sum == 'sha256=' + digest.decode().rstrip('='), name\n\
                 \x20       assert int(size) == len(archive.read(name)), name\n\
                 assert not names, names\n";
    must(command_of("python3", &["-c", check]).arg(&wheel));
}

#[test]
fn the_package_for_debian_is_installed_verified_and_removed_again() {
    if !is_there("dpkg") {
        return;
    }
    let package = package(".deb");
    let field = |name: &str| {
        must(command_of("dpkg-deb", &["-f"]).arg(&package).arg(name))
            .stdout
            .trim()
            .to_owned()
    };
    assert_eq!(
        (field("Package"), field("Version")),
        ("pcm".into(), env!("CARGO_PKG_VERSION").into())
    );
    assert!(field("Depends").starts_with("libc6 (>= 2.") && field("Maintainer").contains('@'));

    // Its fields are held against the rules above where the program that knows all rules cannot be installed.
    if is_in_path("lintian") {
        let mut lintian = command_of("lintian", &["--fail-on", "error,warning", "--no-cfg", "--allow-root"]);
        must(lintian.arg(&package));
    }

    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("a root");
    for name in ["info", "updates", "triggers"] {
        fs::create_dir_all(root.join("var/lib/dpkg").join(name)).expect("a folder of the test");
    }
    fs::write(root.join("var/lib/dpkg/status"), "").expect("a file of the test");
    let dpkg = |arguments: &[&str]| {
        let mut dpkg = Command::new("dpkg");
        // Nothing it depends on is in this root.
        dpkg.arg(format!("--root={}", root.display())).args([
            "--force-depends",
            "--force-not-root",
            "--force-bad-path",
        ]);
        dpkg.args(["--log=/dev/null"]).args(arguments);
        dpkg
    };
    must(dpkg(&["--install"]).arg(&package));
    assert_eq!(must(&mut dpkg(&["--verify", "pcm"])).stdout, "", "sums differ");
    let version = must(Command::new(root.join("usr/bin/pcmctl")).arg("--version"));
    assert_eq!(version.stdout.trim(), format!("pcmctl {}", env!("CARGO_PKG_VERSION")));
    must(Command::new(root.join("usr/bin/pcm-daemon")).arg("--version"));
    let triplet = format!("{}-linux-gnu", env::consts::ARCH);
    let described = root.join("usr/lib").join(triplet).join("pkgconfig/pcm.pc");
    let described = fs::read_to_string(described).expect("a description");
    assert!(described.starts_with("prefix=/usr\n"));
    for name in [
        "man/man1/pcmctl-migrate.1.gz",
        "man/man1/pcm-daemon.1.gz",
        "man/man1/pcmfort.1.gz",
        "doc/pcm/copyright",
        "doc/pcm/LICENSES-of-dependencies",
    ] {
        assert!(root.join("usr/share").join(name).is_file(), "{name}");
    }
    assert_linked_with_the_system(&root.join("usr"));
    must(&mut dpkg(&["--purge", "pcm"]));
    assert!(!root.join("usr").exists());
}

#[test]
fn every_package_that_is_linked_in_is_named_with_its_licence_and_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = unpacked(folder.path());
    let text = fs::read_to_string(prefix.join("share/doc/pcm/LICENSES-of-dependencies")).expect("the licences");
    let (list, texts) = text.split_once("\n======== [1]").expect("texts after the list");
    let lines: Vec<&str> = list.lines().filter(|line| line.ends_with(']')).collect();
    assert!(lines.iter().any(|line| line.starts_with("tokio ")), "{list}");
    assert!(lines.len() > 50, "{}", lines.len());
    assert!(!list.contains("proptest"), "only tests need it");
    assert!(texts.contains("Permission is hereby granted") && texts.contains("Apache License"));
    let without: Vec<&&str> = lines.iter().filter(|line| line.ends_with("[]")).collect();
    assert!(without.len() <= 5, "packages that ship no text: {without:?}");
}

#[test]
fn the_module_file_finds_its_own_prefix() {
    if !is_there("tclsh") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = unpacked(folder.path());
    let file = prefix.join("share/modulefiles/pcm").join(env!("CARGO_PKG_VERSION"));
    // The commands of a module file, as the programs that read it define them.
    let script = "proc prepend-path {name value} {puts \"$name=$value\"}\n\
                  proc module-whatis {text} {}\nproc conflict {name} {}\n\
                  set ModulesCurrentModulefile [lindex $argv 0]\nsource [lindex $argv 0]\n";
    let reader = folder.path().join("reader.tcl");
    fs::write(&reader, script).expect("a file of the test");
    let said = must(Command::new("tclsh").arg(&reader).arg(&file)).stdout;
    let mut names = BTreeSet::new();
    for line in said.lines() {
        let (name, value) = line.split_once('=').expect("a variable");
        assert!(
            Path::new(value).starts_with(&prefix) && Path::new(value).is_dir(),
            "{line}"
        );
        names.insert(name);
    }
    assert_eq!(names.len(), 5, "{said}");
}

#[test]
fn the_recipe_for_spack_is_a_package_with_a_version_and_an_installation() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = unpacked(folder.path());
    let check = "import ast, sys\n\
                 tree = ast.parse(open(sys.argv[1]).read())\n\
                 package, = [node for node in tree.body if isinstance(node, ast.ClassDef)]\n\
                 assert package.name == 'Pcm' and package.bases[0].id == 'Package' and ast.get_docstring(package)\n\
                 calls = [node.value for node in package.body if isinstance(node, ast.Expr)]\n\
                 calls = [(c.func.id, c.args[0].value) for c in calls if isinstance(c, ast.Call)]\n\
                 assert ('version', sys.argv[2]) in calls, calls\n\
                 assert any(name == 'depends_on' and on.startswith('mpich@4.2:') for name, on in calls), calls\n\
                 assert 'install' in [node.name for node in package.body if isinstance(node, ast.FunctionDef)]\n";
    let recipe = prefix.join("share/pcm/spack/packages/pcm/package.py");
    must(
        command_of("python3", &["-c", check])
            .arg(recipe)
            .arg(env!("CARGO_PKG_VERSION")),
    );
}

#[test]
fn the_definition_of_a_container_names_our_package_and_its_scripts_are_sound() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = unpacked(folder.path());
    let text = fs::read_to_string(prefix.join("share/pcm/apptainer/pcm.def")).expect("the definition");
    let deb = format!("pcm_{}_amd64.deb", env!("CARGO_PKG_VERSION"));
    let (head, sections) = text.split_once("\n%").expect("sections");
    assert!(
        head.starts_with("Bootstrap: ") && head.contains("\nFrom: debian:"),
        "{head}"
    );
    let mut names = Vec::new();
    for section in sections.split("\n%") {
        let (name, body) = section.split_once('\n').expect("a name and a body");
        names.push(name);
        match name {
            "files" => assert!(body.trim().starts_with(&format!("{deb} /opt/")), "{body}"),
            "post" | "environment" | "runscript" | "test" => {
                must(command_of("sh", &["-n", "-c"]).arg(body));
            }
            _ => {}
        }
    }
    assert_eq!(names, ["files", "post", "environment", "runscript", "test", "help"]);
    assert!(
        text.contains(&format!("install -y --no-install-recommends /opt/{deb} ")),
        "{text}"
    );
    // Its own programs are asked for their versions in the container, as here.
    for program in ["pcmctl", "pcm-daemon"] {
        assert!(text.contains(&format!("\n    {program} --version\n")), "{text}");
        must(Command::new(prefix.join("bin").join(program)).arg("--version"));
    }
}

/// What Rust programs need of this repository, in the order of dependencies.
const CRATES: [&str; 9] = [
    "proc-files",
    "own-files",
    "cpu-turns",
    "mpi-abi",
    "pcm-proto",
    "pcm-core",
    "pcm-checkpoint",
    "pcm-lib",
    "pcm",
];

/// A minute and a half on two quiet CPUs.
const COMPILED_WITHIN: Duration = Duration::from_secs(900);

#[test]
fn the_crate_for_rust_programs_is_packed_with_all_that_it_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    // Each is compiled from its package alone, and nothing is fetched.
    let mut cargo = command_of(env!("CARGO"), &["package", "--offline", "--allow-dirty"]);
    cargo.args(CRATES.iter().flat_map(|name| ["-p", name]));
    cargo.arg("--target-dir").arg(folder.path());
    cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a checkout"));
    cargo.envs([("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_INCREMENTAL", "0")]);
    let packed = limited::run(&mut cargo, COMPILED_WITHIN);
    assert!(packed.status.success(), "{packed:?}");
    let told = packed.stderr;
    // No address of this project is known.
    let is_other = |line: &&str| line.starts_with("warning") && !line.ends_with("homepage or repository");
    assert_eq!(told.lines().find(is_other), None, "{told}");
    for name in CRATES {
        let version = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
        let packed = folder.path().join(format!("package/{version}.crate"));
        let listed = must(command_of("tar", &["-tzf"]).arg(packed)).stdout;
        let files: BTreeSet<&str> = listed
            .lines()
            .filter_map(|line| line.split_once('/'))
            .map(|(_, file)| file)
            .collect();
        let needed: &[&str] = match name {
            "pcm" => &[
                "README.md",
                "build.rs",
                "examples/rod.rs",
                "src/lib.rs",
                "src/views.rs",
                "tests/rod.rs",
            ],
            "pcm-lib" => &[
                "build.rs",
                "build/expand.rs",
                "interpose/table.txt",
                "include/pcm.h",
                "src/lib.rs",
            ],
            _ => &["src/lib.rs", "Cargo.toml"],
        };
        for file in needed.iter().chain(&["LICENSE-APACHE", "LICENSE-MIT"]) {
            assert!(files.contains(file), "{name} has no {file}: {files:?}");
        }
        let licence = folder.path().join(format!("package/{version}/LICENSE-MIT"));
        let licence = fs::symlink_metadata(licence).expect("unpacked to be compiled");
        assert!(licence.is_file() && licence.len() > 500, "{name}: {licence:?}");
    }
    is_used_with_views(folder.path());
}

/// Of a program that has its dependencies from packages.
const WITH_VIEWS: &str = "use ndarray::ArrayView2;\n\
                          use pcm::{Array, Session, Views};\n\
                          pub fn sum(session: &Session, plate: Array<f64>) -> f64 {\n\
                          \x20   let plate: ArrayView2<'_, f64> = session.view(plate);\n\
                          \x20   plate.sum()\n\
                          }\n";

/// Packing compiles each crate with its own choice of features; a program may ask for more.
fn is_used_with_views(packed: &Path) {
    let user = packed.join("user");
    fs::create_dir_all(user.join("src")).expect("a folder of the test");
    fs::write(user.join("src/lib.rs"), WITH_VIEWS).expect("a program of the test");
    let version = env!("CARGO_PKG_VERSION");
    let mut manifest = format!(
        "[package]\nname = \"user\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
         pcm = {{ version = \"{version}\", features = [\"ndarray\"] }}\n\
         ndarray = {{ version = \"0.17\", default-features = false }}\n[patch.crates-io]\n"
    );
    for name in CRATES {
        manifest += &format!("{name} = {{ path = \"../package/{name}-{version}\" }}\n");
    }
    fs::write(user.join("Cargo.toml"), manifest).expect("a manifest of the test");
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a checkout");
    fs::copy(checkout.join("Cargo.lock"), user.join("Cargo.lock")).expect("versions that are at hand");
    let mut cargo = command_of(env!("CARGO"), &["check", "--offline"]);
    cargo.current_dir(&user).arg("--target-dir").arg(packed);
    let checked = limited::run(&mut cargo, COMPILED_WITHIN);
    assert!(checked.status.success(), "{checked:?}");
}
