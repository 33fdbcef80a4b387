//! Variables that an engine sets on each node for its processes there. Ranks have the environment of `pcmctl run`,
//! which was called on another node, or in another job; in these they get what their own node says.

use super::foreground::Stance;
use pcm_proto::keeper::ProcessSpec;
use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Which they are, for who needs others; set where the daemons are started.
const LIST_VARIABLE: &str = "PCM_NODE_ENVIRONMENT";

/// A star stands for any text at the beginning or the end of a name.
const LIST: &str = "SLURM_* SLURMD_* TMPDIR *_VISIBLE_DEVICES GPU_DEVICE_ORDINAL XDG_RUNTIME_DIR";

/// The order as this node's keeper carries it out: an engine only speaks to keepers in the foreground.
pub(super) fn of_node(spec: &ProcessSpec, stance: Stance) -> Cow<'_, ProcessSpec> {
    if stance == Stance::Detached {
        return Cow::Borrowed(spec);
    }
    let list = std::env::var(LIST_VARIABLE).unwrap_or_else(|_| LIST.to_owned());
    let here = std::env::vars_os().map(|(name, value)| (bytes(name), bytes(value)));
    Cow::Owned(ProcessSpec {
        env: replaced(&spec.env, here, &list),
        ..spec.clone()
    })
}

fn bytes(text: OsString) -> Vec<u8> {
    text.into_vec()
}

type Variable = (Vec<u8>, Vec<u8>);

fn replaced(of_job: &[Variable], here: impl Iterator<Item = Variable>, list: &str) -> Vec<Variable> {
    let is_of_node = |name: &[u8]| {
        list.split_whitespace()
            .any(|pattern| is_match(pattern.as_bytes(), name))
    };
    let of_job = of_job.iter().filter(|(name, _)| !is_of_node(name)).cloned();
    of_job.chain(here.filter(|(name, _)| is_of_node(name))).collect()
}

fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.strip_suffix(b"*"), pattern.strip_prefix(b"*")) {
        (Some(start), _) => name.starts_with(start),
        (None, Some(end)) => name.ends_with(end),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(list: &[(&str, &str)]) -> Vec<Variable> {
        let variable = |(name, value): &(&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        list.iter().map(variable).collect()
    }

    #[test]
    fn a_rank_hears_of_its_own_node_and_keeps_the_rest_of_its_job() {
        let of_job = variables(&[
            ("SLURM_JOB_ID", "1"),
            ("TMPDIR", "/scratch/1"),
            ("CUDA_VISIBLE_DEVICES", "0"),
            ("OMP_NUM_THREADS", "2"),
        ]);
        let here = variables(&[("SLURM_JOB_ID", "2"), ("CUDA_VISIBLE_DEVICES", "3"), ("HOME", "/x")]);
        let expected = variables(&[
            ("OMP_NUM_THREADS", "2"),
            ("SLURM_JOB_ID", "2"),
            ("CUDA_VISIBLE_DEVICES", "3"),
        ]);
        assert_eq!(replaced(&of_job, here.into_iter(), LIST), expected);
        assert_eq!(replaced(&of_job, std::iter::empty(), "NOTHING"), of_job);
    }
}
