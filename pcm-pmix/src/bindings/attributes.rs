//! Names of attributes, which PMIx passes as text. Must never have a line whose value is not a plain text: the test
//! reads this file.

use std::ffi::CStr;

pub const PMIX_APP_RANK: &CStr = c"pmix.apprank";
pub const PMIX_APPNUM: &CStr = c"pmix.appnum";
pub const PMIX_EVENT_AFFECTED_PROC: &CStr = c"pmix.evproc";
pub const PMIX_GLOBAL_RANK: &CStr = c"pmix.grank";
pub const PMIX_GROUP_ASSIGN_CONTEXT_ID: &CStr = c"pmix.grp.actxid";
pub const PMIX_GROUP_CONTEXT_ID: &CStr = c"pmix.grp.ctxid";
pub const PMIX_GROUP_ENDPT_DATA: &CStr = c"pmix.grp.endpt";
pub const PMIX_GROUP_MEMBERSHIP: &CStr = c"pmix.grp.mbrs";
pub const PMIX_GROUP_LOCAL_ONLY: &CStr = c"pmix.grp.lcl";
pub const PMIX_HOSTNAME: &CStr = c"pmix.hname";
pub const PMIX_JOB_NUM_APPS: &CStr = c"pmix.job.napps";
pub const PMIX_JOB_SIZE: &CStr = c"pmix.job.size";
pub const PMIX_JOBID: &CStr = c"pmix.jobid";
pub const PMIX_LOCAL_COLLECTIVE_STATUS: &CStr = c"pmix.loc.col.st";
pub const PMIX_LOCAL_PEERS: &CStr = c"pmix.lpeers";
pub const PMIX_LOCAL_RANK: &CStr = c"pmix.lrank";
pub const PMIX_LOCAL_SIZE: &CStr = c"pmix.local.size";
pub const PMIX_LOCALLDR: &CStr = c"pmix.lldr";
pub const PMIX_MAX_PROCS: &CStr = c"pmix.max.size";
pub const PMIX_NODE_MAP: &CStr = c"pmix.nmap";
pub const PMIX_NODE_RANK: &CStr = c"pmix.nrank";
pub const PMIX_NODE_SIZE: &CStr = c"pmix.node.size";
pub const PMIX_NODEID: &CStr = c"pmix.nodeid";
pub const PMIX_NSDIR: &CStr = c"pmix.nsdir";
pub const PMIX_NUM_NODES: &CStr = c"pmix.num.nodes";
pub const PMIX_PARENT_ID: &CStr = c"pmix.parent";
pub const PMIX_PERSISTENCE: &CStr = c"pmix.persist";
pub const PMIX_PROC_DATA: &CStr = c"pmix.pdata";
pub const PMIX_PROC_MAP: &CStr = c"pmix.pmap";
pub const PMIX_PROCDIR: &CStr = c"pmix.pdir";
pub const PMIX_RANK: &CStr = c"pmix.rank";
pub const PMIX_SERVER_TMPDIR: &CStr = c"pmix.srvr.tmpdir";
pub const PMIX_SPAWNED: &CStr = c"pmix.spawned";
pub const PMIX_SYSTEM_TMPDIR: &CStr = c"pmix.sys.tmpdir";
pub const PMIX_TIMEOUT: &CStr = c"pmix.timeout";
pub const PMIX_TMPDIR: &CStr = c"pmix.tmpdir";
pub const PMIX_UNIV_SIZE: &CStr = c"pmix.univ.size";
pub const PMIX_WAIT: &CStr = c"pmix.wait";
