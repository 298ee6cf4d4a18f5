use proptest::prelude::*;

use super::*;
use crate::registry::Threshold;
use crate::value::Kind;

const S: u64 = 1_000_000_000;

fn table(values: &[(&str, f64)], sampled: Time) -> (Table, NodeId) {
    let mut table = Table::new();
    let node = table.node(None, "a");
    for (name, number) in values {
        let id = table.registry().find(name).unwrap();
        table.set(node, id, Value::Number(*number), sampled);
    }
    (table, node)
}

fn choice(table: &Table, condition: &str, prefer: &str) -> Choice {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let wish = Wish { condition: some(condition), prefer: some(prefer) };
    Choice::new(&wish, table.registry()).unwrap()
}

fn fails(verdict: Verdict) -> String {
    match verdict {
        Verdict::Fails(standing) => format!("fails {}", standing.clause),
        Verdict::Waits(standing) => format!("waits {}", standing.clause),
        Verdict::Suits(_) => "suits".to_owned(),
    }
}

#[test]
fn the_clause_that_fails_is_named_with_what_it_rests_on() {
    let (mut table, node) = table(&[("load1", 3.0), ("threads", 4.0)], Time(S));
    let choice = choice(&table, "threads >= 4 && load1 < 0.5*threads", "");
    let verdict = choice.verdict(&mut table, node, &Claims::default(), Time(3 * S));
    let Verdict::Fails(standing) = verdict else { panic!("{verdict:?}") };
    assert_eq!(standing.clause, "load1 < 0.5*threads");
    let values: Vec<_> =
        standing.values.iter().map(|it| (&*it.name, &it.value, it.age_s)).collect();
    assert!(values.contains(&("load1", &Value::Number(3.0), Some(2.0))), "{values:?}");
}

#[test]
fn what_was_claimed_since_the_sample_is_subtracted_at_once() {
    let (mut table, node) = table(
        &[("mem_available", 10.0), ("load1", 0.0), ("threads", 4.0), ("cpu_idle", 100.0)],
        Time(S),
    );
    let choice = choice(&table, "mem_available >= 8 && load1 < 1 && cpu_idle >= 75", "");
    let mut claims = Claims::default();
    let ask = |table: &mut Table, claims: &Claims| {
        fails(choice.verdict(table, node, claims, Time(9 * S)))
    };
    assert_eq!(ask(&mut table, &claims), "suits");
    claims.start(1, Claim { cores: 1, memory_bytes: 4, since: Time(2 * S) });
    assert_eq!(ask(&mut table, &claims), "fails mem_available >= 8");
    // The next sample shows the memory, but not yet the load.
    for (name, number) in [("mem_available", 9.0), ("cpu_idle", 80.0), ("load1", 0.02)] {
        let id = table.registry().find(name).unwrap();
        table.set(node, id, Value::Number(number), Time(3 * S));
    }
    assert_eq!(ask(&mut table, &claims), "fails load1 < 1");
    claims.end(1);
    assert_eq!(ask(&mut table, &claims), "suits");
}

#[test]
fn where_claims_are_not_known_each_start_needs_a_fresh_sample() {
    let (mut table, node) =
        table(&[("psi_io", 1.0), ("mem_available", 9.0), ("threads", 2.0)], Time(S));
    let ask = |table: &mut Table, claims: &Claims, condition: &str| {
        fails(choice(table, condition, "").verdict(table, node, claims, Time(9 * S)))
    };
    let mut claims = Claims::default();
    claims.start(1, Claim { cores: 1, memory_bytes: 0, since: Time(2 * S) });
    assert_eq!(ask(&mut table, &claims, "psi_io < 5"), "waits psi_io");
    assert_eq!(ask(&mut table, &claims, "mem_available > 5"), "waits mem_available");
    assert_eq!(ask(&mut table, &claims, "threads > 1"), "suits", "nothing changes that");
    // That it has ended says nothing of what it has left.
    claims.end(1);
    assert_eq!(ask(&mut table, &claims, "psi_io < 5"), "waits psi_io");
    let id = table.registry().find("psi_io").unwrap();
    table.set(node, id, Value::Number(1.0), Time(2 * S + 1));
    assert_eq!(ask(&mut table, &claims, "psi_io < 5"), "suits");
    claims.start(2, Claim { cores: 1, memory_bytes: 3, since: Time(2 * S) });
    assert_eq!(ask(&mut table, &claims, "mem_available > 5"), "waits mem_available", "of task 1");
}

#[test]
fn what_a_run_keeps_has_what_was_started_and_a_gang_adds_to_it() {
    let (mut table, node) = table(&[], Time(S));
    let [cores, running, reserved, ..] = of_run::define(&mut table);
    for (id, number) in [(cores, 8.0), (running, 1.0), (reserved, 2.0)] {
        table.set(node, id, Value::Number(number), Time(2 * S));
    }
    let mut claims = Claims::default();
    let claim = Claim { cores: 2, memory_bytes: 0, since: Time(2 * S) };
    claims.start(1, claim);
    let at_once = |table: &mut Table, condition: &str| {
        choice(table, condition, "").at_once(table, node, &claims, (claim, 5))
    };
    assert_eq!(at_once(&mut table, "run_cores_reserved <= 4"), 2);
    assert_eq!(at_once(&mut table, "run_running < 4"), 3);
    let choice = choice(&table, "run_running < 2 && run_cores_reserved < 3", "");
    assert_eq!(fails(choice.verdict(&mut table, node, &claims, Time(2 * S))), "suits");
}

#[test]
fn a_users_value_is_what_the_user_says_whatever_is_started() {
    let (mut table, node) = table(&[], Time(S));
    let provider = "user".to_owned();
    let (name, unit) = ("licences".to_owned(), String::new());
    let attribute =
        Attribute { name, unit, kind: Kind::Number, threshold: Threshold::default(), provider };
    let id = table.define(attribute).unwrap();
    table.set(node, id, Value::Number(1.0), Time(S));
    let mut claims = Claims::default();
    claims.start(1, Claim { cores: 1, memory_bytes: 0, since: Time(2 * S) });
    let choice = choice(&table, "licences > 0", "");
    assert_eq!(fails(choice.verdict(&mut table, node, &claims, Time(9 * S))), "suits");
}

#[test]
fn what_no_node_can_ever_have_is_found_at_once() {
    let (mut table, node) = table(&[("mem_total", 16.0), ("load1", 9.0)], Time(S));
    let never = |table: &Table, condition: &str, nodes: &[NodeId]| {
        let never = choice(table, condition, "").never(table, nodes, Time(S), Folders::MayCome);
        never.map(|never| never.clause)
    };
    let clause = Some("mem_total > 20".to_owned());
    assert_eq!(never(&table, "load1 < 1 && mem_total > 20", &[node]), clause);
    assert_eq!(never(&table, "load1 < 1", &[node]), None, "it may change");
    assert_eq!(never(&table, "cores > 99", &[node]), None, "nobody has said how many there are");
    assert_eq!(never(&table, "has(gpu)", &[node]), None, "a user may say so later");
    let other = table.node(None, "b");
    let id = table.registry().find("mem_total").unwrap();
    table.set(other, id, Value::Number(32.0), Time(S));
    assert_eq!(never(&table, "mem_total > 20", &[node, other]), None);
}

#[test]
fn what_no_node_has_can_never_be_when_all_have_told_what_they_have() {
    let (mut table, node) = table(&[("mem_total", 10.0)], Time(S));
    let other = table.node(None, "b");
    let never_with = |table: &Table, condition: &str, folders: Folders| {
        let never = choice(table, condition, "").never(table, &[node, other], Time(S), folders);
        never.map(|never| (never.clause, never.lacking))
    };
    let never = |table: &Table, condition: &str| never_with(table, condition, Folders::NoneComes);
    let found = |clause: &str, name: &str| Some((clause.to_owned(), Some(name.to_owned())));
    assert_eq!(never(&table, "net_send('eth9') < 1"), None, "no network has told so far");
    let mut set = |node: NodeId, name: &str, value: Value| {
        let id = table.define(catalogue::of(name).unwrap().attribute(name.to_owned())).unwrap();
        table.set(node, id, value, Time(S));
    };
    for node in [node, other] {
        set(node, "net_send('eth0')", Value::Number(0.0));
        for family in ["fs_type", "fs_free"] {
            set(node, &format!("{family}('/nosuch')"), Value::undefined("there is no such file"));
        }
    }
    set(node, "net_send('eth1')", Value::Number(0.0));
    set(node, "fs_type('/here')", Value::text("ext4"));
    set(node, "fs_free('/here')", Value::undefined("permission denied"));
    let eth9 = "net_send('eth9')";
    assert_eq!(never(&table, &format!("{eth9} < 1")), found(&format!("{eth9} < 1"), eth9));
    assert_eq!(never(&table, &format!("has({eth9})")), found(&format!("has({eth9})"), eth9));
    assert_eq!(never(&table, &format!("!has({eth9})")), None);
    assert_eq!(never(&table, "net_send('eth1') < 1"), None, "one has it");
    let free = "fs_free('/nosuch')";
    assert_eq!(never(&table, &format!("{free} > 1")), found(&format!("{free} > 1"), free));
    assert_eq!(never(&table, &format!("{free} > 1 || mem_total > 5")), None, "of one it is true");
    assert_eq!(never(&table, &format!("{free} > 1 || load1 < 5")), None, "the load may change");
    assert_eq!(never(&table, "fs_free('/here') > 1"), None, "the folder is there");
    assert_eq!(never(&table, "gpu_name('7') == 'x'"), None, "a driver may be slow");
    assert_eq!(never(&table, "gpu >= 1"), None, "likewise");
    // As long as something may make it a folder is waited for, but not when nobody looks for it.
    let so_far = |table: &Table, condition: &str| never_with(table, condition, Folders::MayCome);
    for of in [format!("{free} > 1"), format!("has({free})"), "has(fs_type('/nosuch'))".to_owned()]
    {
        assert_eq!(so_far(&table, &of), None, "{of}");
        assert!(never(&table, &of).is_some(), "{of}");
    }
    assert_eq!(so_far(&table, &format!("has({eth9})")), found(&format!("has({eth9})"), eth9));
    let unseen = "fs_free('/unseen')";
    assert_eq!(so_far(&table, &format!("{unseen} > 1")), found(&format!("{unseen} > 1"), unseen));
}

#[test]
fn the_folders_of_a_choice_are_those_of_its_file_systems_whether_known_or_not() {
    let (mut table, _) = table(&[], Time(S));
    let root = catalogue::of("fs_free").unwrap().attribute("fs_free('/')".to_owned());
    table.define(root).unwrap();
    let condition = "fs_free('/') > 1 && has(fs_type('/b')) && disk_busy('sda') < 5";
    let choice = choice(&table, condition, "node_filesystem_avail_bytes('/my data')");
    let names = choice.names(table.registry());
    let folders: BTreeSet<String> = names.iter().filter_map(|it| folder_of(it)).collect();
    assert_eq!(folders, ["/", "/b", "/my data"].map(str::to_owned).into());
}

#[test]
fn a_gang_fits_so_many_times_as_its_claims_leave_the_condition_true() {
    let (mut table, node) = table(
        &[("mem_available", 10.0), ("load1", 0.0), ("threads", 4.0), ("psi_io", 0.0)],
        Time(S),
    );
    let mut claims = Claims::default();
    let ask = |table: &mut Table, claims: &Claims, condition: &str, memory_bytes| {
        let one = Claim { cores: 1, memory_bytes, since: Time(3 * S) };
        choice(table, condition, "").at_once(table, node, claims, (one, 8))
    };
    assert_eq!(ask(&mut table, &claims, "mem_available >= 4", 3), 3, "10, 7, 4");
    assert_eq!(ask(&mut table, &claims, "load1 < 0.5*threads", 0), 2);
    assert_eq!(ask(&mut table, &claims, "mem_available >= 20", 3), 0);
    assert_eq!(ask(&mut table, &claims, "mem_available >= 1", 1), 8, "no more were asked about");
    assert_eq!(ask(&mut table, &claims, "psi_io < 5 && mem_available >= 4", 0), 8, "not known");
    claims.start(1, Claim { cores: 1, memory_bytes: 4, since: Time(2 * S) });
    assert_eq!(ask(&mut table, &claims, "mem_available >= 4", 3), 1, "6");
}

proptest! {
    /// As many as it says fit are let in when they come one by one, and no more.
    #[test]
    fn a_gang_fits_as_often_as_its_tasks_one_by_one(
        all in 0_u32..40, memory in 1_u64..9, limit in 0_u32..12, cores in 1_u32..4, most in 1_u32..20
    ) {
        let (mut table, node) = table(
            &[("mem_available", f64::from(all)), ("cpu_idle", 100.0), ("threads", 16.0)],
            Time(S),
        );
        let choice = choice(&table, &format!("mem_available >= {limit} && cpu_idle >= 20"), "");
        let claim = Claim { cores, memory_bytes: memory, since: Time(2 * S) };
        let at_once = choice.at_once(&mut table, node, &Claims::default(), (claim, most));
        let mut claims = Claims::default();
        let mut one_by_one = 0;
        while one_by_one < most
            && matches!(choice.verdict(&mut table, node, &claims, Time(2 * S)), Verdict::Suits(_))
        {
            one_by_one += 1;
            claims.start(one_by_one, claim);
        }
        prop_assert_eq!(at_once, one_by_one);
    }

    #[test]
    fn ranks_have_the_order_of_numbers(one in -1e300..1e300_f64, other in -1e300..1e300_f64, small in -3_i8..3) {
        for (one, other) in [(one, other), (f64::from(small), other), (f64::from(small), -0.0)] {
            let ranks = rank_of(Some(one)).cmp(&rank_of(Some(other)));
            prop_assert_eq!(Some(ranks), one.partial_cmp(&other));
        }
        prop_assert!(rank_of(Some(one)) > rank_of(None));
    }

    /// However tasks are started and samples are taken, memory that tasks have said they take is never given twice.
    #[test]
    fn claimed_memory_is_not_given_twice(
        steps in proptest::collection::vec((any::<bool>(), 1_u32..6, any::<bool>()), 1..60)
    ) {
        const ALL: u32 = 10;
        let (mut table, node) = table(&[("mem_available", f64::from(ALL))], Time(0));
        let id = table.registry().find("mem_available").unwrap();
        let (mut claims, mut running) = (Claims::default(), BTreeMap::new());
        for (at, (is_start, memory, is_sample)) in (1..).zip(steps) {
            let used: u32 = running.values().sum();
            if is_sample {
                // The truth, at a moment after all that was started so far.
                table.set(node, id, Value::Number(f64::from(ALL - used)), Time(at * 10));
            }
            if is_start {
                let choice = choice(&table, &format!("mem_available >= {memory}"), "");
                let verdict = choice.verdict(&mut table, node, &claims, Time(at * 10 + 1));
                if matches!(verdict, Verdict::Suits(_)) {
                    prop_assert!(used + memory <= ALL, "{used} are used, {memory} more were let in");
                    let since = Time(at * 10 + 1);
                    claims.start(at as u32, Claim { cores: 1, memory_bytes: memory.into(), since });
                    running.insert(at as u32, memory);
                } else if is_sample {
                    prop_assert!(used + memory > ALL, "{used} are used, {memory} more fit");
                }
            } else if let Some((task, _)) = running.pop_first() {
                claims.end(task);
            }
        }
    }
}

#[test]
fn nodes_without_a_driver_never_have_gpus() {
    let (mut table, node) = table(&[], Time(0));
    let other = table.node(None, "b");
    let gpu = table.registry().find("gpu").unwrap();
    let never = |table: &Table, condition: &str, nodes: &[NodeId]| {
        let never = choice(table, condition, "").never(table, nodes, Time(S), Folders::NoneComes);
        never.map(|never| (never.clause, never.lacking))
    };
    let wanted = ["has(gpu)", "gpu >= 1", "gpu_memory_free > 1GiB", "gpu_name('0') == 'x'"];
    table.set(node, gpu, Value::undefined("NVML does not answer"), Time(0));
    for clause in wanted {
        assert_eq!(never(&table, clause, &[node]), None, "{clause}: it may come back");
    }
    table.set(node, gpu, Value::undefined(NO_GPUS), Time(1));
    for clause in wanted {
        let (of, lacking) = never(&table, clause, &[node]).expect(clause);
        assert_eq!(of, clause);
        assert!(lacking.is_some_and(|name| name.starts_with("gpu")), "{clause}");
        assert_eq!(
            never(&table, clause, &[node, other]),
            None,
            "{clause}: of one nothing is known"
        );
    }
    assert_eq!(never(&table, "!has(gpu)", &[node]), None);
    table.set(other, gpu, Value::Number(4.0), Time(1));
    assert_eq!(never(&table, "gpu >= 1", &[node, other]), None);
    let more = "gpu >= 8".to_owned();
    assert_eq!(never(&table, &more, &[other]), Some((more, None)), "as many as there are");
}

#[test]
fn clauses_that_no_node_fulfils_together_can_never_be() {
    let (mut table, node) = table(&[("mem_total", 8.0), ("threads", 64.0)], Time(0));
    let other = table.node(None, "b");
    let [memory, threads] = ["mem_total", "threads"].map(|it| table.registry().find(it).unwrap());
    table.set(other, memory, Value::Number(64.0), Time(0));
    let never = |table: &Table, condition: &str| {
        let never = choice(table, condition, "").never(
            table,
            &[node, other],
            Time(S),
            Folders::NoneComes,
        )?;
        let (name, values) = never.example.unwrap();
        Some((never.clause, name, values[0].value.clone()))
    };
    let condition = "mem_total > 10 && load1 < 1 && threads > 10";
    assert_eq!(never(&table, condition), None, "of one the threads are not known");
    table.set(other, threads, Value::Number(4.0), Time(0));
    let together = "mem_total > 10 && threads > 10".to_owned();
    assert_eq!(never(&table, condition), Some((together, "b".into(), Value::Number(4.0))));
    assert_eq!(never(&table, "mem_total > 10 && load1 < 1 && threads > 2"), None);
    assert_eq!(never(&table, "mem_total > 10 || threads > 10"), None);
    for (condition, count) in [
        ("mem_total > 10 && load1 < 1", 1),
        ("mem_total > 10 && threads > 10", 0),
        ("threads > 2 && load1 < 1", 2),
        ("mem_total > 100 || load1 < 1", 2),
    ] {
        let choice = choice(&table, condition, "");
        assert_eq!(
            choice.may_suit(&table, &[node, other], Time(S), Folders::NoneComes),
            count,
            "{condition}"
        );
    }
}
