//! Jobs as people name them: by number, or by name where one running job has it.

use crate::failure::Failure;
use crate::link::{ASK_DEADLINE, Link};
use pcm_proto::control::{ControlToDaemon, DaemonToControl, Refusal};
use pcm_proto::ids::JobId;
use pcm_proto::job::{JobState, JobStatus};
use pcm_proto::refusal;

/// All jobs the cluster knows.
pub async fn jobs(link: &mut Link) -> Result<Vec<JobStatus>, Failure> {
    ask(link, ControlToDaemon::Jobs).await
}

async fn ask(link: &mut Link, request: ControlToDaemon) -> Result<Vec<JobStatus>, Failure> {
    match link.ask(request, ASK_DEADLINE).await? {
        DaemonToControl::Jobs(jobs) => Ok(jobs),
        other => Err(Failure::unexpected("Jobs", &other)),
    }
}

/// The number of the job that `text` names.
pub async fn job(link: &mut Link, text: &str) -> Result<JobId, Failure> {
    if let Ok(number) = text.parse() {
        return Ok(JobId(number));
    }
    let name = text.to_owned();
    choose(&ask(link, ControlToDaemon::JobsNamed { name }).await?, text)
}

fn choose(jobs: &[JobStatus], name: &str) -> Result<JobId, Failure> {
    let named: Vec<&JobStatus> = jobs.iter().filter(|job| job.name == name).collect();
    let alive: Vec<&&JobStatus> = named.iter().filter(|job| job.state != JobState::Ended).collect();
    match (alive.as_slice(), named.last()) {
        ([one], _) => Ok(one.job),
        ([], Some(last)) => Ok(last.job),
        ([], None) => Err(Refusal::new(
            refusal::UNKNOWN_JOB,
            format!("no job has the name {name:?}: 'pcmctl jobs' lists them"),
        )
        .into()),
        (several, _) => {
            let numbers: Vec<String> = several.iter().map(|job| job.job.to_string()).collect();
            Err(Failure::usage(format!(
                "{} running jobs are called {name:?}: give the number, {}",
                several.len(),
                numbers.join(" or ")
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcm_proto::ids::{Epoch, NodeName};

    fn job(number: u64, name: &str, state: JobState) -> JobStatus {
        JobStatus {
            job: JobId(number),
            name: name.to_owned(),
            state,
            epoch: Epoch(0),
            size: 1,
            nodes: Vec::new(),
            started_us: 0,
            end: None,
            coordinator: NodeName::new("n0").unwrap(),
            reign: 0,
            spares: Vec::new(),
        }
    }

    #[test]
    fn a_name_means_its_running_job_or_else_its_newest() {
        let jobs = [
            job(1, "heat2d", JobState::Ended),
            job(2, "heat2d", JobState::Running),
            job(3, "heat2d", JobState::Ended),
            job(4, "old", JobState::Ended),
            job(5, "old", JobState::Ended),
        ];
        assert_eq!(choose(&jobs, "heat2d"), Ok(JobId(2)));
        assert_eq!(choose(&jobs, "old"), Ok(JobId(5)));
        assert_eq!(choose(&jobs, "none").unwrap_err().code, "unknown_job");
    }

    #[test]
    fn a_name_of_two_running_jobs_is_refused_with_their_numbers() {
        let jobs = [job(1, "a", JobState::Running), job(2, "a", JobState::Starting)];
        assert!(choose(&jobs, "a").unwrap_err().message.contains("1 or 2"));
    }
}
