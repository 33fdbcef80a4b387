//! The option that chooses how data moves in a reconfiguration, the same for every verb that has it.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use pcm_proto::method::Method;

/// Leaves the choice to the job, or for a job to us.
const AUTO: &str = "auto";

/// Reads the option; `None` is [`AUTO`].
pub(crate) fn parser() -> impl TypedValueParser<Value = MethodWanted> {
    let names = std::iter::once(AUTO).chain(Method::all().map(Method::as_str));
    PossibleValuesParser::new(names.collect::<Vec<_>>()).try_map(|name| match name.as_str() {
        AUTO => Ok(MethodWanted(None)),
        name => name.parse().map(|method| MethodWanted(Some(method))),
    })
}

/// The method that somebody wants, if he wants a certain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MethodWanted(pub(crate) Option<Method>);

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command, error::ErrorKind};

    fn parsed(value: &str) -> Result<MethodWanted, ErrorKind> {
        let command = Command::new("test").arg(Arg::new("method").long("method").value_parser(parser()));
        let matches = command.try_get_matches_from(["test", "--method", value]);
        matches.map_err(|error| error.kind()).map(|matches| {
            let wanted = matches.get_one::<MethodWanted>("method");
            *wanted.expect("it was given")
        })
    }

    #[test]
    fn every_method_and_auto_can_be_asked_for_and_nothing_else() {
        assert_eq!(parsed("auto"), Ok(MethodWanted(None)));
        for method in Method::all() {
            assert_eq!(parsed(method.as_str()), Ok(MethodWanted(Some(method))));
        }
        assert_eq!(parsed("merge-p2p"), Err(ErrorKind::InvalidValue));
    }
}
