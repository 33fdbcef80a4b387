//! Names that the processes of a job publish for each other (`MPI_Publish_name`). They belong to the job and end with
//! it.

use super::coordinator::{Coordinator, Effect};
use pcm_proto::ids::ProcessId;
use pcm_proto::peer::{CoordinatorToNode, NameRequest};

/// Most names of one job: far above real use, and a few hundred kilobytes.
const NAMES_MAX: usize = 1024;

impl Coordinator {
    pub(super) fn on_name(&mut self, process: ProcessId, request: NameRequest, effects: &mut Vec<Effect>) {
        let Some(node) = self.processes.get(&process).map(|known| known.node.clone()) else {
            return;
        };
        let result = match &request {
            NameRequest::Publish { service, port } => self.publish(service, port),
            NameRequest::Unpublish { service } => {
                let port = self.names.remove(service);
                port.map(|_| String::new()).ok_or_else(|| format!("no name {service}"))
            }
            NameRequest::Lookup { service } => self
                .names
                .get(service)
                .cloned()
                .ok_or_else(|| format!("no name {service}")),
        };
        let message = CoordinatorToNode::NameAnswer {
            process,
            request,
            result,
        };
        effects.push(Effect::Send { node, message });
    }

    /// Publishing the same port again is the repetition of a request whose answer was lost.
    fn publish(&mut self, service: &str, port: &str) -> Result<String, String> {
        match self.names.get(service) {
            Some(known) if known != port => return Err(format!("name {service} is taken")),
            None if self.names.len() >= NAMES_MAX => return Err(format!("a job has at most {NAMES_MAX} names")),
            _ => {}
        }
        self.names.insert(service.to_owned(), port.to_owned());
        Ok(String::new())
    }
}
