//! Whatever happens to a table, the one above it comes to know it; and no bytes break a receiver.

use proptest::prelude::*;

use super::*;
use crate::registry::{Attribute, Threshold};
use crate::table::{State, Table};
use crate::value::{Kind, Value};
use rakuda_core::Time;

const SILENCE_NS: u64 = 10_000_000_000;

#[derive(Debug, Clone)]
enum Step {
    Define(u8, bool),
    Node(u8),
    State(u8, bool),
    Set(u8, u8, Value),
    Send,
    Restart,
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<f64>().prop_map(Value::number),
        (-1000i32..1000).prop_map(|number| Value::Number(f64::from(number))),
        (-1000i32..1000).prop_map(|number| Value::Number(f64::from(number) / 100.0)),
        any::<f32>().prop_map(|number| Value::number(f64::from(number))),
        "\\PC{0,20}".prop_map(Value::text),
        "[a-z ]{1,10}".prop_map(Value::undefined),
        "[a-z ]{1,10}".prop_map(Value::free),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => (any::<u8>(), any::<bool>()).prop_map(|(name, text)| Step::Define(name, text)),
        1 => any::<u8>().prop_map(Step::Node),
        1 => (any::<u8>(), any::<bool>()).prop_map(|(node, up)| Step::State(node, up)),
        8 => (any::<u8>(), any::<u8>(), values()).prop_map(|(node, id, value)| Step::Set(node, id, value)),
        3 => Just(Step::Send),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

fn own(name: u8, is_text: bool) -> Attribute {
    let kind = if is_text { Kind::Text } else { Kind::Number };
    let (name, threshold) = (format!("own_{name}"), Threshold::default());
    Attribute { name, unit: "x".to_owned(), kind, threshold, provider: "test".to_owned() }
}

/// When the values of a table were sampled.
fn sample_times(table: &Table) -> Vec<Option<Time>> {
    let registry = table.registry();
    table
        .nodes()
        .flat_map(|(node, _)| registry.iter().map(move |(id, _)| table.sampled(node, id)))
        .collect()
}

/// What a reader of a table sees, but for times.
fn seen(table: &Table) -> Vec<String> {
    let mut lines = Vec::new();
    for (node, described) in table.nodes() {
        lines.push(format!("{} {}", described.name, described.state));
        for (id, attribute) in table.registry().iter() {
            if let Some(cell) = table.cell(node, id) {
                lines.push(format!("{} {} {:?}", described.name, attribute.name, cell.value));
            }
        }
    }
    lines
}

proptest! {
    #[test]
    fn after_a_frame_both_tables_say_the_same(steps in steps(), samples in any::<bool>()) {
        let mut below = Table::new();
        // Thresholds apart, each value is worth telling.
        let all: Vec<_> = below.registry().iter().map(|(_, it)| it.clone()).collect();
        let mut above = Table::new();
        let (mut sender, mut receiver) = (Sender::new(SILENCE_NS), Receiver::new());
        if samples {
            sender = sender.telling_samples();
        }
        let mut now = 1_000_000_000_000;
        for step in steps.into_iter().chain([Step::Send]) {
            now += 1_000_000;
            let nodes = below.len() as u32;
            match step {
                Step::Define(name, is_text) => drop(below.define(own(name % 8, is_text))),
                Step::Node(name) => drop(below.node(None, &format!("node{}", name % 5))),
                Step::State(..) | Step::Set(..) if nodes == 0 => {}
                Step::State(node, up) => {
                    let state = if up { State::Up } else { State::Suspected };
                    below.set_state(crate::table::NodeId(u32::from(node) % nodes), state);
                }
                Step::Set(node, id, value) => {
                    let node = crate::table::NodeId(u32::from(node) % nodes);
                    let own: Vec<_> = below.registry().iter().skip(all.len()).map(|(id, _)| id).collect();
                    if let Some(id) = own.get(usize::from(id) % own.len().max(1)) {
                        below.set(node, *id, value, Time(now));
                    }
                }
                Step::Send => {
                    if let Some(frame) = sender.take(&below, Time(now)) {
                        receiver.apply(&frame, &mut above, Time(now)).unwrap();
                    }
                    prop_assert_eq!(seen(&below), seen(&above));
                    if samples {
                        prop_assert_eq!(sample_times(&below), sample_times(&above));
                    }
                    prop_assert_eq!(sender.take(&below, Time(now)), None, "the sender has told all");
                }
                Step::Restart => sender.restart(),
            }
        }
    }

    #[test]
    fn any_bytes_are_a_frame_or_an_error_that_leaves_the_table_alone(
        bytes in prop::collection::vec(any::<u8>(), 0..200), version in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if version && bytes.len() > 1 {
            (bytes[0], bytes[1]) = (form::VERSION, 1);
        }
        let mut table = Table::new();
        let before = seen(&table);
        if Receiver::new().apply(&bytes, &mut table, Time(5)).is_err() {
            prop_assert_eq!(seen(&table), before);
        }
    }

    #[test]
    fn a_frame_with_a_wrong_byte_is_a_frame_or_an_error(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
    ) {
        let (frame, _) = full_frame();
        let mut broken = frame.clone();
        *at.get_mut(&mut broken) = byte;
        let _ = Receiver::new().apply(&broken, &mut Table::new(), Time(5));
        let cut = cut.index(frame.len());
        let mut table = Table::new();
        let refused = Receiver::new().apply(&frame[..cut], &mut table, Time(5));
        prop_assert!(refused.is_err() && seen(&table).is_empty(), "cut at {cut}");
    }
}

fn full_frame() -> (Vec<u8>, Table) {
    let mut table = Table::new();
    for name in ["a", "b"] {
        let node = table.node(None, name);
        let ids: Vec<_> = table.registry().iter().map(|(id, it)| (id, it.kind)).collect();
        for (id, kind) in ids {
            let value = match kind {
                Kind::Number => Value::Number(f64::from(id.0) * 1.01),
                Kind::Text => Value::text("some text"),
            };
            table.set(node, id, value, Time(1_000_000));
        }
    }
    (Sender::new(SILENCE_NS).take(&table, Time(2_000_000)).unwrap(), table)
}

#[test]
fn what_moves_less_than_its_threshold_is_told_after_the_longest_silence() {
    let mut below = Table::new();
    let node = below.node(None, "a");
    let load = below.registry().find("load1").unwrap();
    let mut sender = Sender::new(SILENCE_NS);
    let at = |ms: u64| Time(1_000_000_000_000 + ms * 1_000_000);
    below.set(node, load, Value::Number(1.0), at(0));
    assert!(sender.take(&below, at(0)).is_some());
    below.set(node, load, Value::Number(1.01), at(1000));
    assert_eq!(sender.take(&below, at(1000)), None);
    // It creeps: compared is what was told, not what was sampled last.
    below.set(node, load, Value::Number(1.06), at(2000));
    assert!(sender.take(&below, at(2000)).is_some());
    below.set(node, load, Value::Number(1.06), at(11_000));
    assert_eq!(sender.take(&below, at(11_000)), None);
    below.set(node, load, Value::Number(1.06), at(12_000));
    assert!(sender.take(&below, at(12_000)).is_some());
    assert_eq!(sender.take(&below, at(30_000)), None, "nothing was sampled since");
}

#[test]
#[expect(clippy::float_cmp, reason = "the same double is what was told")]
fn a_sample_that_has_not_moved_is_a_byte_for_who_must_know_of_it() {
    let (mut below, mut above) = (Table::new(), Table::new());
    let node = below.node(None, "a");
    let load = below.registry().find("load1").unwrap();
    let mut sender = Sender::new(SILENCE_NS).telling_samples();
    let mut receiver = Receiver::new();
    let at = |ms: u64| Time(1_000_000_000_000 + ms * 1_000_000);
    let mut told = |value: f64, ms: u64| {
        below.set(node, load, Value::Number(value), at(ms));
        let frame = sender.take(&below, at(ms)).unwrap();
        receiver.apply(&frame, &mut above, at(ms)).unwrap();
        (frame.len(), above.number(node, load), above.sampled(node, load).unwrap())
    };
    told(1.0, 0);
    let (bytes, number, sampled) = told(1.01, 1000);
    assert_eq!((number, sampled), (1.0, at(1000)), "within the threshold");
    assert!(bytes <= 10, "{bytes} bytes");
    assert_eq!(told(1.06, 2000).1, 1.06, "compared is what was told");
}

#[test]
#[expect(clippy::float_cmp, reason = "the same double is what was told")]
fn a_receiver_of_one_node_takes_its_values_under_whatever_name_and_no_others() {
    let (frame, _) = full_frame();
    let mut table = Table::new();
    let here = table.node(None, "node7");
    let before = seen(&table);
    let refused = Receiver::of_node(here).apply(&frame, &mut table, Time(5));
    assert_eq!(refused, Err(FrameError::Bad("too many nodes")));
    assert_eq!(seen(&table), before);
    let mut below = Table::new();
    let node = below.node(None, "its-own-name");
    let load = below.registry().find("load1").unwrap();
    below.set(node, load, Value::Number(1.5), Time(5));
    let mut sender = Sender::new(SILENCE_NS);
    let mut receiver = Receiver::of_node(here);
    for _ in 0..2 {
        let frame = sender.take(&below, Time(5)).unwrap();
        receiver.apply(&frame, &mut table, Time(5)).unwrap();
        sender.restart();
    }
    assert_eq!(table.number(here, load), 1.5);
    assert_eq!(table.len(), 1);
}

#[test]
fn ages_are_kept_whatever_the_clocks_show() {
    let (mut below, mut above) = (Table::new(), Table::new());
    let node = below.node(None, "a");
    let load = below.registry().find("load1").unwrap();
    below.set(node, load, Value::Number(1.0), Time(7_000_000_000));
    let frame = Sender::new(SILENCE_NS).take(&below, Time(7_250_000_000)).unwrap();
    Receiver::new().apply(&frame, &mut above, Time(99_000_000_000)).unwrap();
    let node = above.find_node("a").unwrap();
    assert_eq!(above.sampled(node, load), Some(Time(98_750_000_000)));
}

#[test]
fn a_missing_frame_is_noticed_and_a_new_session_heals() {
    let (mut below, mut above) = (Table::new(), Table::new());
    let (mut sender, mut receiver) = (Sender::new(SILENCE_NS), Receiver::new());
    let node = below.node(None, "a");
    let load = below.registry().find("load1").unwrap();
    let mut send = |value: f64, ms: u64, sender: &mut Sender| {
        below.set(node, load, Value::Number(value), Time(ms * 1_000_000));
        sender.take(&below, Time(ms * 1_000_000)).unwrap()
    };
    let first = send(1.0, 1, &mut sender);
    receiver.apply(&first, &mut above, Time(9)).unwrap();
    let _lost = send(2.0, 2, &mut sender);
    let third = send(3.0, 3, &mut sender);
    let gap = FrameError::Gap { expected: 2, found: 3 };
    assert_eq!(receiver.apply(&third, &mut above, Time(9)), Err(gap));
    sender.restart();
    let whole = send(4.0, 4, &mut sender);
    receiver.apply(&whole, &mut above, Time(10_000_000)).unwrap();
    let node = above.find_node("a").unwrap();
    assert!((above.number(node, load) - 4.0).abs() < f64::EPSILON);
}

#[test]
fn six_values_of_a_node_are_a_few_bytes() {
    let mut table = Table::new();
    let node = table.node(None, "a");
    let mut sender = Sender::new(SILENCE_NS);
    sender.take(&table, Time(1)).unwrap();
    for (name, value) in [
        ("load1", 0.52),
        ("runnable", 3.0),
        ("cpu_user", 12.5),
        ("cpu_idle", 80.25),
        ("mem_available", 12_884_901_888.0),
        ("mem_free", 8_589_934_592.0),
    ] {
        let id = table.registry().find(name).unwrap();
        table.set(node, id, Value::Number(value), Time(1_000_000));
    }
    let frame = sender.take(&table, Time(1_500_000)).unwrap();
    assert!(frame.len() <= 40, "{} bytes", frame.len());
}

#[test]
fn who_asks_for_values_as_they_are_gets_what_has_moved_by_less_than_its_threshold() {
    let (mut below, mut above) = (Table::new(), Table::new());
    let node = below.node(None, "a");
    let memory = below.registry().find("mem_available").unwrap();
    let load = below.registry().find("load1").unwrap();
    let mut sender = Sender::new(SILENCE_NS).telling_samples();
    let mut receiver = Receiver::new();
    let at = |ms: u64| Time(1_000_000_000_000 + ms * 1_000_000);
    let mut told = |sender: &mut Sender, step: f64, ms: u64| {
        below.set(node, memory, Value::Number(1e12 + step), at(ms));
        below.set(node, load, Value::Number(1.0 + step / 1e3), at(ms));
        let frame = sender.take(&below, at(ms)).unwrap();
        receiver.apply(&frame, &mut above, at(ms)).unwrap();
        (above.number(node, memory) - 1e12, above.number(node, load))
    };
    assert_eq!(told(&mut sender, 0.0, 0), (0.0, 1.0));
    assert_eq!(told(&mut sender, 1.0, 100), (0.0, 1.0), "within the threshold");
    sender.tell_exactly(&["memory".to_owned()], at(150));
    assert_eq!(
        told(&mut sender, 2.0, 140),
        (2.0, 1.0),
        "sampled before, and told before the answer"
    );
    assert_eq!(told(&mut sender, 3.0, 160), (3.0, 1.0), "sampled since");
    assert_eq!(told(&mut sender, 4.0, 260), (3.0, 1.0), "once");
    sender.tell_exactly(&[], at(300));
    sender.restart();
    sender.tell_exactly(&[], at(400));
    assert_eq!(told(&mut sender, 5.0, 410), (5.0, 1.005));
}

#[test]
fn what_tasks_choose_by_is_told_however_little_it_has_moved() {
    let (mut below, mut above) = (Table::new(), Table::new());
    let node = below.node(None, "here");
    let here = above.node(None, "n1");
    let [memory, load] = ["mem_available", "load1"].map(|it| below.registry().find(it).unwrap());
    let (mut sender, mut receiver) =
        (Sender::new(SILENCE_NS).telling_samples(), Receiver::of_node(here));
    let at = |ms: u64| Time(1_000_000_000_000 + ms * 1_000_000);
    let mut told = |sender: &mut Sender, numbers: Option<f64>, now: Time| {
        if let Some(number) = numbers {
            below.set(node, memory, Value::Number(1e9 + number), now);
            below.set(node, load, Value::Number(1.0 + number / 1000.0), now);
        }
        let frame = sender.take(&below, now).unwrap_or_default();
        if !frame.is_empty() {
            receiver.apply(&frame, &mut above, now).unwrap();
        }
        (above.number(here, memory) - 1e9, above.number(here, load))
    };
    assert_eq!(told(&mut sender, Some(0.0), at(0)), (0.0, 1.0));
    assert_eq!(told(&mut sender, Some(1.0), at(100)), (0.0, 1.0), "within the threshold");
    sender.tell_always(vec!["mem_available".to_owned(), "nothing".to_owned()]);
    assert_eq!(told(&mut sender, None, at(150)), (1.0, 1.0), "what was kept back comes at once");
    assert_eq!(told(&mut sender, Some(2.0), at(200)), (2.0, 1.0));
    sender.restart();
    assert_eq!(told(&mut sender, Some(3.0), at(300)), (3.0, 1.003));
    assert_eq!(told(&mut sender, Some(4.0), at(400)), (4.0, 1.003), "also in a new session");
    sender.tell_always(Vec::new());
    assert_eq!(told(&mut sender, Some(5.0), at(500)), (4.0, 1.003));
}

/// A frame that was on its way for long makes its sample seem new; the next one has the newer sample all the same.
#[test]
fn a_value_is_that_of_the_last_frame_however_long_the_ones_before_were_on_their_way() {
    let (mut below, mut above) = (Table::new(), Table::new());
    let node = below.node(None, "here");
    let here = above.node(None, "n1");
    let load = below.registry().find("load1").unwrap();
    let (mut sender, mut receiver) = (Sender::new(SILENCE_NS), Receiver::of_node(here));
    let at = |ms: u64| Time(1_000_000_000_000 + ms * 1_000_000);
    let mut frame = |load_is: f64, sampled: Time, made: Time| {
        below.set(node, load, Value::Number(load_is), sampled);
        sender.take(&below, made).unwrap()
    };
    let first = frame(1.0, at(0), at(0));
    let second = frame(9.0, at(250), at(510));
    receiver.apply(&first, &mut above, at(500)).unwrap();
    receiver.apply(&second, &mut above, at(520)).unwrap();
    let cell = above.cell(here, load).unwrap();
    let too_new = (Value::Number(9.0), at(500));
    assert_eq!((cell.value, cell.sampled), too_new, "by the way of the one before");
}

/// A node that tells the same table as others, each for itself.
struct OfNode {
    below: Table,
    sender: Sender,
    receiver: Receiver,
}

impl OfNode {
    fn new(above: &mut Table, name: &str) -> Self {
        let mut below = Table::new();
        below.node(None, "here");
        let sender = Sender::new(SILENCE_NS).telling_samples();
        Self { below, sender, receiver: Receiver::of_node(above.node(None, name)) }
    }

    fn print(&mut self, provider: &str, text: &str, above: &mut Table, ms: u64) {
        let (node, output) =
            (self.below.find_node("here").unwrap(), crate::external::parse(text.as_bytes()));
        let now = Time(1_000_000_000_000 + ms * 1_000_000);
        crate::external::note(&mut self.below, node, provider, &output, false, now);
        if let Some(frame) = self.sender.take(&self.below, now) {
            self.receiver.apply(&frame, above, now).unwrap();
        }
    }

    fn forget(&mut self, provider: &str, above: &mut Table, ms: u64) {
        let node = self.below.find_node("here").unwrap();
        let now = Time(1_000_000_000_000 + ms * 1_000_000);
        crate::external::forget(&mut self.below, node, provider, now);
        let frame = self.sender.take(&self.below, now).unwrap();
        self.receiver.apply(&frame, above, now).unwrap();
    }
}

fn value(table: &Table, node: &str, name: &str) -> Option<Value> {
    let (node, id) = (table.find_node(node)?, table.registry().find(name)?);
    table.cell(node, id).map(|cell| cell.value)
}

#[test]
fn a_counter_of_a_provider_is_told_whenever_it_counts() {
    let mut above = Table::new();
    let mut node = OfNode::new(&mut above, "a");
    node.print("probe", "licences_free 1001", &mut above, 0);
    node.print("probe", "licences_free 1000", &mut above, 100);
    assert_eq!(value(&above, "a", "licences_free"), Some(Value::Number(1000.0)));
}

#[test]
fn what_is_another_kind_on_other_nodes_is_undefined_with_both_until_those_take_it_back() {
    let mut above = Table::new();
    let [mut one, mut two] = ["one", "two"].map(|name| OfNode::new(&mut above, name));
    one.print("probe", "rack 7 U", &mut above, 0);
    two.print("probe", "rack left\nheight 3", &mut above, 0);
    let why = "rack is a text here, a number in U on other nodes";
    assert_eq!(value(&above, "one", "rack"), Some(Value::Number(7.0)));
    assert_eq!(value(&above, "two", "rack"), Some(Value::free(why)));
    assert_eq!(value(&above, "two", "provider_error('probe')"), Some(Value::text(why)));
    assert_eq!(value(&above, "two", "height"), Some(Value::Number(3.0)));
    assert_eq!(value(&above, "one", "provider_error('probe')"), None);
    let node = above.find_node("two").unwrap();
    assert!(crate::external::has_told(&above, node, "probe"), "nobody waits for it");
    one.forget("probe", &mut above, 100);
    two.print("probe", "rack left\nheight 3", &mut above, 200);
    assert_eq!(value(&above, "two", "rack"), Some(Value::text("left")), "it has not told it anew");
    assert_eq!(
        value(&above, "two", "provider_error('probe')"),
        Some(Value::undefined("it has no fault"))
    );
    one.print("probe", "rack 8 U", &mut above, 300);
    let why = "rack is a number in U here, a text on other nodes";
    assert_eq!(value(&above, "one", "rack"), Some(Value::free(why)));
    assert_eq!(value(&above, "one", "provider_error('probe')"), Some(Value::text(why)));
}

#[test]
fn what_a_node_has_taken_back_may_become_something_else_at_every_level() {
    let mut above = Table::new();
    let mut node = OfNode::new(&mut above, "a");
    node.print("probe", "rack 7 U", &mut above, 0);
    let row = node.below.find_node("here").unwrap();
    let now = Time(1_000_100_000_000);
    // All of it between two frames.
    crate::external::forget(&mut node.below, row, "probe", now);
    node.print("probe", "rack 7 cm", &mut above, 200);
    let id = above.registry().find("rack").unwrap();
    assert_eq!(above.registry().get(id).unit, "cm");
    assert_eq!(value(&above, "a", "rack"), Some(Value::Number(7.0)));
    node.print("probe", "rack left", &mut above, 300);
    let why = "rack was a number in cm, is a text";
    assert_eq!(value(&above, "a", "rack"), Some(Value::undefined(why)), "that is a fault");
    node.print("probe", "rack left", &mut above, 400);
    assert_eq!(value(&above, "a", "rack"), Some(Value::undefined(why)), "and stays one");
}
