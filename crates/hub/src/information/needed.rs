//! What a question about nodes needs, so that the answer waits for nothing else.

use rakuda_info::of_run;
use rakuda_info::query::{Query, Question, names_of};
use rakuda_info::registry::{Attribute, AttributeId, Registry};

/// What a question of `rakudactl nodes` needs.
#[derive(Debug, Default)]
pub(super) struct Needed {
    /// The providers; `None`: all, or not known yet.
    pub(super) providers: Option<Vec<String>>,
    /// Names of attributes; `None`: all, or not known yet.
    pub(super) attributes: Option<Vec<String>>,
}

impl Needed {
    pub(super) fn has(&self, attribute: &Attribute) -> bool {
        let Self { providers, attributes } = self;
        providers.as_ref().is_none_or(|all| all.contains(&attribute.provider))
            && attributes.as_ref().is_none_or(|all| all.contains(&attribute.name))
    }
}

/// Understands a question so far.
pub(super) fn needed(question: &serde_json::Value, registry: &Registry) -> Needed {
    let text = |field: &str| question[field].as_str().map(str::to_owned);
    if let Some(only) = text("only") {
        return Needed { providers: Some(names_of(&only)), attributes: None };
    }
    let question = Question {
        fields: text("fields"),
        condition: text("where"),
        sort: text("sort"),
        group_by: text("group_by"),
        ..Question::default()
    };
    let mut registry = registry.clone();
    for attribute in of_run::told() {
        // A value of a user may have that name.
        let _ = registry.define(attribute);
    }
    let Ok(query) = Query::new(&question, &registry) else { return Needed::default() };
    let name = |id: &AttributeId| registry.get(*id).name.clone();
    let attributes = query.needed().map(|ids| ids.iter().map(name).collect());
    Needed { providers: query.providers(&registry), attributes }
}
