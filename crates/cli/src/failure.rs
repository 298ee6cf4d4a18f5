//! What went wrong, in the words of a line for people.

use rakuda_cluster::ClusterError;
use rakuda_service::{ClientError, TokenError};

/// An error and its causes; a cause that the words before it name already is not repeated.
pub fn with_causes(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |said, cause| {
        if said.is_empty() {
            cause
        } else if said.contains(&cause) {
            said
        } else {
            format!("{said}: {cause}")
        }
    })
}

/// The same as a sentence: `failed to ...`, unless it is one as it is.
pub fn sentence(error: &anyhow::Error) -> String {
    let said = with_causes(error);
    match error.downcast_ref::<ClusterError>() {
        Some(_) => said,
        None => format!("failed to {said}"),
    }
}

/// Of one that was asked something, whose own errors are sentences; those of a service are what has failed, but for
/// what it says itself.
pub fn of_question(error: &anyhow::Error) -> String {
    let is_refusal = |it: &ClientError| matches!(it, ClientError::Refused { .. });
    let has_failed = error.downcast_ref::<ClientError>().is_some_and(|it| !is_refusal(it))
        || error.downcast_ref::<TokenError>().is_some();
    if has_failed { sentence(error) } else { with_causes(error) }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("read it: {0}")]
    struct Telling(#[source] std::io::Error);

    #[test]
    fn a_cause_is_told_once() {
        let cause = || std::io::Error::other("it is wet");
        let error = Err::<(), _>(Telling(cause())).context("begin").unwrap_err();
        assert_eq!(with_causes(&error), "begin: read it: it is wet");
        assert_eq!(sentence(&error), "failed to begin: read it: it is wet");
        let error = Err::<(), _>(cause()).context("read it").unwrap_err();
        assert_eq!(with_causes(&error), "read it: it is wet");
    }

    #[test]
    fn a_service_that_is_not_there_has_failed_and_one_that_refuses_speaks_for_itself() {
        let error = anyhow::Error::from(ClientError::Address("x".to_owned()));
        assert!(of_question(&error).starts_with("failed to understand the address"));
        let refused = ClientError::Refused { status: 404, message: "there is no node".to_owned() };
        assert_eq!(of_question(&refused.into()), "there is no node (status 404)");
        assert_eq!(of_question(&anyhow::anyhow!("no run is going on")), "no run is going on");
    }

    #[test]
    fn what_is_a_sentence_stays_one() {
        let error = anyhow::Error::from(ClusterError::Setting("hosts:3: expected a name".into()));
        assert_eq!(sentence(&error), "hosts:3: expected a name");
    }
}
