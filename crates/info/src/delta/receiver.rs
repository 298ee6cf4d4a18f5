//! Frames to values of a table.

use std::collections::BTreeMap;

use rakuda_core::Time;

use super::bytes::Reader;
use super::form::{NODES_MAX, VERSION, tag};
use crate::external::{self, set_refusal};
use crate::registry::{
    ATTRIBUTES_MAX, Attribute, AttributeId, NAME_BYTES_MAX, Threshold, UNIT_BYTES_MAX, is_name,
    is_unit,
};
use crate::table::{NodeId, State, Table};
use crate::value::{Kind, TEXT_BYTES_MAX, Value};
use crate::{catalogue, of_run};

/// Maximum length of the word of a state, bytes.
const STATE_BYTES_MAX: usize = 32;
/// Maximum age of a value, µs: a year.
const AGE_US_MAX: u64 = 366 * 86400 * 1_000_000;

/// Why a frame was not applied; the table is as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It ends too early.
    #[error("the frame ends within a field")]
    Short,
    /// It is of another version.
    #[error("the frame is of version {0}, expected {VERSION}")]
    Version(u8),
    /// A frame before it is missing: the session must begin anew.
    #[error("frame {found} follows, expected {expected}: the session is to begin anew")]
    Gap {
        /// The next number of the session.
        expected: u64,
        /// The number of the frame.
        found: u64,
    },
    /// It has values of a node that another sender reports.
    #[error("the frame has the node {0:?}, which another source tells of")]
    Foreign(String),
    /// Its bytes mean nothing.
    #[error("the frame has {0}")]
    Bad(&'static str),
}

/// A frame that makes sense, not applied yet.
struct Frame<'a> {
    sequence: u64,
    attributes: Vec<Attribute>,
    nodes: Vec<&'a str>,
    states: Vec<(usize, State)>,
    blocks: Vec<Block>,
}

/// Values of a node of one age.
struct Block {
    node: usize,
    age_us: u64,
    /// Values with their attributes. `None`: as they were sent before.
    values: Vec<(usize, Option<Value>)>,
}

/// An attribute of the session.
#[derive(Debug)]
struct Heard {
    /// Its number in the table. `None`: the table has no place for it, or the sender may not set it.
    id: Option<AttributeId>,
    /// The attribute itself, if it is not built in.
    own: Option<Box<Own>>,
}

/// An attribute that may be something else on other nodes.
#[derive(Debug)]
struct Own {
    attribute: Attribute,
    refused: Option<Refused>,
}

/// The table has another attribute of that name.
#[derive(Debug)]
struct Refused {
    why: Value,
    /// The values that were sent all the same.
    values: BTreeMap<NodeId, Value>,
}

/// The other end of a session.
#[derive(Debug, Default)]
pub struct Receiver {
    /// The number of the last frame.
    sequence: u64,
    /// The attributes, by the session's numbers.
    attributes: Vec<Heard>,
    /// The number of changed attributes in the table when these were looked up.
    changed: u64,
    kinds: Vec<Kind>,
    nodes: Vec<NodeId>,
    /// If set, the only node of the session, whatever the sender calls it.
    only: Option<NodeId>,
}

impl Receiver {
    /// Makes a receiver that awaits the first frame of a session.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same for a sender that reports this one node, and may not report others.
    pub fn of_node(node: NodeId) -> Self {
        Self { only: Some(node), ..Self::default() }
    }

    /// The nodes of the session.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Applies a frame that was received now.
    pub fn apply(&mut self, bytes: &[u8], table: &mut Table, now: Time) -> Result<(), FrameError> {
        self.apply_where(bytes, table, now, &|_, _| true)
    }

    /// The same for a sender that may report some nodes only.
    pub fn apply_where(
        &mut self,
        bytes: &[u8],
        table: &mut Table,
        now: Time,
        may: &dyn Fn(&Table, &str) -> bool,
    ) -> Result<(), FrameError> {
        let mut reader = Reader::new(bytes);
        let version = reader.byte()?;
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        let sequence = reader.varint()?;
        let begins = sequence == 1;
        if !begins && sequence != self.sequence + 1 {
            return Err(FrameError::Gap { expected: self.sequence + 1, found: sequence });
        }
        let fresh = Self { only: self.only, ..Self::default() };
        let frame = if begins { &fresh } else { &*self }.parse(sequence, &mut reader)?;
        if let Some(foreign) = frame.nodes.iter().find(|name| !may(table, name)) {
            return Err(FrameError::Foreign((*foreign).to_owned()));
        }
        if begins {
            *self = fresh;
        }
        self.accept(frame, table, now);
        Ok(())
    }

    fn parse<'a>(&self, sequence: u64, reader: &mut Reader<'a>) -> Result<Frame<'a>, FrameError> {
        let mut kinds = self.kinds.clone();
        let mut attributes = Vec::new();
        for _ in 0..reader.count(ATTRIBUTES_MAX - kinds.len(), "too many attributes")? {
            let attribute = attribute(reader)?;
            kinds.push(attribute.kind);
            attributes.push(attribute);
        }
        let mut nodes = Vec::new();
        let nodes_max = if self.only.is_some() { 1 } else { NODES_MAX };
        for _ in 0..reader.count(nodes_max - self.nodes.len(), "too many nodes")? {
            let name = reader.text(NAME_BYTES_MAX, "a name of a node that is too long")?;
            if name.is_empty() || name.chars().any(char::is_control) {
                return Err(FrameError::Bad("a name of a node that cannot be printed"));
            }
            nodes.push(name);
        }
        let known = self.nodes.len() + nodes.len();
        let node = |reader: &mut Reader<'a>| -> Result<usize, FrameError> {
            let node = reader.count(NODES_MAX, "a node that is not known")?;
            if node < known { Ok(node) } else { Err(FrameError::Bad("a node that is not known")) }
        };
        let mut states = Vec::new();
        for _ in 0..reader.count(NODES_MAX, "too many states")? {
            let node = node(reader)?;
            let word = reader.text(STATE_BYTES_MAX, "a state that is too long")?;
            if word.is_empty()
                || !word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            {
                return Err(FrameError::Bad("a state that is no word"));
            }
            states.push((node, State::of(word)));
        }
        let mut blocks = Vec::new();
        for _ in 0..reader.count(usize::MAX, "too many blocks")? {
            let node = node(reader)?;
            let age_us = reader.varint()?.min(AGE_US_MAX);
            let mut values = Vec::new();
            let mut next = 0;
            for _ in 0..reader.count(ATTRIBUTES_MAX, "too many values")? {
                let head = reader.varint()?;
                let gap = usize::try_from(head >> tag::BITS).unwrap_or(usize::MAX);
                let id = gap.saturating_add(next);
                let kind =
                    kinds.get(id).ok_or(FrameError::Bad("an attribute that is not known"))?;
                let value = match head & 7 {
                    tag::SAME => None,
                    tag => Some(value(tag, *kind, reader)?),
                };
                values.push((id, value));
                next = id + 1;
            }
            blocks.push(Block { node, age_us, values });
        }
        if !reader.is_at_end() {
            return Err(FrameError::Bad("something behind its end"));
        }
        Ok(Frame { sequence, attributes, nodes, states, blocks })
    }

    fn accept(&mut self, frame: Frame<'_>, table: &mut Table, now: Time) {
        self.sequence = frame.sequence;
        for name in frame.nodes {
            let node = self.only.unwrap_or_else(|| table.node(None, name));
            // Its state may have become another one in an earlier session.
            table.set_state(node, State::Up);
            self.nodes.push(node);
        }
        for (node, state) in frame.states {
            table.set_state(self.nodes[node], state);
        }
        self.look_up_again(table);
        for attribute in frame.attributes {
            self.kinds.push(attribute.kind);
            let heard = self.look_up(attribute, table);
            self.attributes.push(heard);
        }
        self.changed = table.registry().changed();
        for Block { node, age_us, values } in frame.blocks {
            let sampled = Time(now.0.saturating_sub(age_us.saturating_mul(1000)));
            let node = self.nodes[node];
            let mut refused = Vec::new();
            for (attribute, value) in values {
                let Heard { id: Some(id), own } = &mut self.attributes[attribute] else { continue };
                let sampled = sample_time(table, node, *id, sampled);
                match (own.as_deref_mut(), value) {
                    (Some(Own { attribute, refused: Some(it) }), value) => {
                        if let Some(value) = value {
                            it.values.insert(node, value);
                        }
                        table.set(node, *id, it.why.clone(), sampled);
                        refused.push((attribute.provider.clone(), it.why.clone()));
                    }
                    (_, Some(value)) => table.set(node, *id, value, sampled),
                    (_, None) => table.set_sampled(node, *id, sampled),
                }
            }
            for (provider, why) in refused {
                if let Value::Undefined(why) = why
                    && provider != external::USER
                {
                    set_refusal(table, node, &provider, Some(&why), sampled);
                }
            }
        }
    }

    /// Looks up what an attribute of the sender is here.
    fn look_up(&self, attribute: Attribute, table: &mut Table) -> Heard {
        let known = table.registry().find(&attribute.name);
        let is_of_run =
            known.is_some_and(|id| table.registry().get(id).provider == of_run::PROVIDER);
        // What a run keeps on a node is not for the node to say.
        if self.only.is_some() && is_of_run {
            return Heard { id: None, own: None };
        }
        let found = table.find_or_refuse(attribute.clone(), &self.nodes);
        let Some((id, why)) = found else { return Heard { id: None, own: None } };
        if catalogue::of(&attribute.name).is_some() && why.is_none() {
            return Heard { id: Some(id), own: None };
        }
        if why.is_none() {
            for node in &self.nodes {
                set_refusal(table, *node, &attribute.provider, None, Time(0));
            }
        }
        let refused = why.map(|why| Refused { why, values: BTreeMap::new() });
        Heard { id: Some(id), own: Some(Box::new(Own { attribute, refused })) }
    }

    /// Other nodes may have taken back what stood in the way, or said something else.
    fn look_up_again(&mut self, table: &mut Table) {
        let is_changed = table.registry().changed() != self.changed;
        for index in 0..self.attributes.len() {
            let is_open = |own: &mut Box<Own>| is_changed || own.refused.is_some();
            let Some(own) = self.attributes[index].own.take_if(is_open) else { continue };
            let Own { attribute, refused } = *own;
            let mut heard = self.look_up(attribute, table);
            let told = refused.map(|it| it.values).unwrap_or_default();
            match (heard.id, heard.own.as_deref_mut().and_then(|own| own.refused.as_mut())) {
                (_, Some(refused)) => refused.values = told,
                (Some(id), None) => {
                    for (node, value) in told {
                        let sampled = table.sampled(node, id).unwrap_or(Time(0));
                        table.set(node, id, value, sampled);
                    }
                }
                (None, None) => {}
            }
            self.attributes[index] = heard;
        }
    }
}

/// When a value was sampled that comes behind others of its session. By its age it may seem older than they, when a
/// frame before has been on its way for longer: the order of frames decides. What users have said, others may have said
/// anew.
fn sample_time(table: &Table, node: NodeId, id: AttributeId, by_age: Time) -> Time {
    if table.registry().get(id).provider == external::USER {
        return by_age;
    }
    table.sampled(node, id).map_or(by_age, |known| known.max(by_age))
}

fn attribute(reader: &mut Reader<'_>) -> Result<Attribute, FrameError> {
    let name = reader.text(NAME_BYTES_MAX, "a name of an attribute that is too long")?;
    if !is_name(name) {
        return Err(FrameError::Bad("a name of an attribute that is none"));
    }
    let unit = reader.text(UNIT_BYTES_MAX, "a unit that is too long")?;
    if !is_unit(unit) {
        return Err(FrameError::Bad("a unit that cannot be printed"));
    }
    let kind = match reader.byte()? {
        0 => Kind::Number,
        1 => Kind::Text,
        _ => return Err(FrameError::Bad("a kind that is not known")),
    };
    let threshold = Threshold { absolute: reader.double()?, relative: reader.double()? };
    if !(threshold.absolute >= 0.0 && threshold.relative >= 0.0) {
        return Err(FrameError::Bad("a threshold that is negative"));
    }
    let provider = reader.text(NAME_BYTES_MAX, "a name of a provider that is too long")?;
    let (name, unit, provider) = (name.to_owned(), unit.to_owned(), provider.to_owned());
    Ok(Attribute { name, unit, kind, threshold, provider })
}

#[expect(clippy::cast_precision_loss, reason = "senders write whole numbers up to 2^53")]
fn value(tag: u64, kind: Kind, reader: &mut Reader<'_>) -> Result<Value, FrameError> {
    let value = match tag {
        tag::INTEGER => Value::Number(reader.signed()? as f64),
        tag::HUNDREDTHS => Value::Number(reader.signed()? as f64 / 100.0),
        tag::SINGLE => Value::number(reader.single()?.into()),
        tag::DOUBLE => Value::number(reader.double()?),
        tag::TEXT => Value::text(reader.text(TEXT_BYTES_MAX, "a text that is too long")?),
        tag::UNDEFINED => {
            Value::undefined(reader.text(TEXT_BYTES_MAX, "a reason that is too long")?)
        }
        tag::FREE => Value::free(reader.text(TEXT_BYTES_MAX, "a reason that is too long")?),
        _ => return Err(FrameError::Bad("a value of no known form")),
    };
    match value.kind() {
        Some(other) if other != kind => Err(FrameError::Bad("a value of another kind")),
        _ => Ok(value),
    }
}
