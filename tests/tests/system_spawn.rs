//! Every request of `MPI_Comm_spawn` is answered: carried out as it was asked, or refused with a reason while the job
//! goes on. Each program asks twice, so that a refusal leaves nothing behind that the next request would meet.

use tests::spawning::{Mpi, Programs};

#[test]
fn a_spawn_that_cannot_be_is_refused_with_a_reason_and_the_job_goes_on() {
    let programs = Programs::on(3, "job", Mpi::Chosen);
    programs.refuse_what_cannot_be();
    for (program, argument, begins) in [
        ("./spawning", "a\narg2=x", "arg2="),
        ("./spawning,./spawning", "a\ntotspawns=9", "totspawns="),
        ("./spawning", "a\nendcmd\nb", "endcmd"),
    ] {
        let reason = format!(
            "the request cannot be carried out: an argument or a hint holds a line that begins with {begins:?}"
        );
        programs.refused(&[program, "1", argument], &reason);
    }
}

#[test]
fn a_spawn_finds_the_hosts_and_the_path_where_each_rank_is_a_world() {
    let programs = Programs::on(2, "rank", Mpi::Chosen);
    let on_a_node = programs.spawned(&["./spawning", "2", "a", "host", "n1"]);
    assert_eq!(on_a_node, ["child on n1 with a"; 4]);
    programs.refused(
        &["./spawning", "2", "a", "host", "elsewhere"],
        "host \"elsewhere\" is neither a node nor a machine of this cluster, which has n0, n1",
    );
    let path = programs.worker_elsewhere();
    assert_eq!(programs.spawned(&["worker", "2", "a", "path", &path]).len(), 4);
    programs.refused(&["worker", "1", "a", "path", "/no/such"], "no program worker");
    programs.refused(
        &["./spawning", "1", "*70000"],
        "the request cannot be carried out: it is longer than 65536 bytes",
    );
}

#[test]
fn a_spawn_finds_the_hosts_the_path_and_the_arguments_it_names() {
    let programs = Programs::on(3, "job", Mpi::Chosen);
    programs.find_hosts_path_and_arguments();
}
