//! How far a node's clock is ahead of this one, and how wrong that can be.
//!
//! An exchange bounds the difference by itself, whatever the delays of both directions were (Cristian 1989): the answer
//! was made after the question was sent and before it was received. Exchanges of other moments bound it as well, a
//! little wider by what two clocks may drift apart meanwhile. The difference lies within all of these bounds, so what
//! is said here is off by at most the bound that is said with it, as long as no clock drifts faster than
//! [`DRIFT_PPB_MAX`]. The exchange with the shortest round trip counts most, as its bound is the narrowest.

use alloc::collections::VecDeque;

/// Maximum drift of two clocks against each other, in parts of 10^9. The kernel slews a clock by up to 500 ppm, and
/// crystals differ by some 50.
pub const DRIFT_PPB_MAX: i64 = 600_000;
/// Maximum number of exchanges that are kept; older ones say little, as their bounds have widened.
const KEPT: usize = 64;

/// Maximum time that a clock shows, ns: some 73 years after its start, either way.
const TIME_NS_MAX: u64 = 1 << 61;

/// One question and its answer; each time is ns by the clock of the host that took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The question was sent, here.
    pub sent_ns: i64,
    /// It was received, there.
    pub there_received_ns: i64,
    /// The answer was sent, there.
    pub there_sent_ns: i64,
    /// It was received, here.
    pub received_ns: i64,
}

impl Exchange {
    /// From the question to the answer, without what the other end took.
    pub fn round_trip_ns(&self) -> i64 {
        (self.received_ns - self.sent_ns) - (self.there_sent_ns - self.there_received_ns)
    }

    /// Whether it can have been like that. Nothing else is reckoned with: the times there are what a node says.
    fn is_sound(&self) -> bool {
        let times = [self.sent_ns, self.there_received_ns, self.there_sent_ns, self.received_ns];
        times.iter().all(|time| time.unsigned_abs() <= TIME_NS_MAX)
            && self.sent_ns <= self.received_ns
            && self.there_received_ns <= self.there_sent_ns
            && self.round_trip_ns() >= 0
    }

    /// How far the other clock is behind this one by the formula of the paper of 2016 (section 5.2):
    /// (T3 + T1) / 2 - T2, with one time there.
    pub fn paper_difference_ns(&self) -> i64 {
        midpoint(self.sent_ns, self.received_ns) - self.there_sent_ns
    }

    /// The least and the most that the other clock can be ahead.
    fn limits(&self) -> (i64, i64) {
        (self.there_sent_ns - self.received_ns, self.there_received_ns - self.sent_ns)
    }

    /// When that was so, by this clock.
    fn middle_ns(&self) -> i64 {
        midpoint(self.sent_ns, self.received_ns)
    }
}

/// How far a clock is ahead of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// So far.
    pub ahead_ns: i64,
    /// Maximum error of that.
    pub bound_ns: i64,
}

/// What is known of one node's clock.
#[derive(Clone, Debug, Default)]
pub struct ClockFilter {
    /// The last ones, the oldest first.
    exchanges: VecDeque<Exchange>,
    /// How often an exchange contradicted the others: a clock was not what it had been.
    contradictions: u32,
}

impl ClockFilter {
    /// Takes an exchange. One that contradicts the others makes them forgotten: they are of another clock.
    pub fn add(&mut self, exchange: Exchange) {
        if !exchange.is_sound() {
            self.contradictions += 1;
            return;
        }
        self.exchanges.push_back(exchange);
        if self.limits_at(exchange.middle_ns()).is_some_and(|(least, most)| least > most) {
            self.contradictions += 1;
            self.exchanges.clear();
            self.exchanges.push_back(exchange);
        }
        if self.exchanges.len() > KEPT {
            self.exchanges.pop_front();
        }
    }

    /// How far the node's clock is ahead when this one shows `here_ns`; `None` before the first exchange.
    pub fn at(&self, here_ns: i64) -> Option<Offset> {
        let (least, most) = self.limits_at(here_ns)?;
        let ahead_ns = midpoint(least, most);
        Some(Offset { ahead_ns, bound_ns: most - ahead_ns })
    }

    /// The shortest round trip of those that are kept.
    pub fn round_trip_ns_min(&self) -> Option<i64> {
        self.exchanges.iter().map(Exchange::round_trip_ns).min()
    }

    /// The exchange with the shortest round trip.
    pub fn best(&self) -> Option<&Exchange> {
        self.exchanges.iter().min_by_key(|exchange| exchange.round_trip_ns())
    }

    /// How often an exchange contradicted those before it.
    pub fn contradictions(&self) -> u32 {
        self.contradictions
    }

    fn limits_at(&self, here_ns: i64) -> Option<(i64, i64)> {
        let widened = |exchange: &Exchange| {
            let (least, most) = exchange.limits();
            // To either end of it, since it is not known when within it the answer was made.
            let away_ns =
                (here_ns - exchange.sent_ns).abs().max((here_ns - exchange.received_ns).abs());
            let drift_ns = drift(away_ns);
            (least - drift_ns, most + drift_ns)
        };
        let both = |one: (i64, i64), other: (i64, i64)| (one.0.max(other.0), one.1.min(other.1));
        self.exchanges.iter().map(widened).reduce(both)
    }
}

/// What two clocks may drift apart in that time, rounded up.
fn drift(ns: i64) -> i64 {
    let product = i128::from(ns) * i128::from(DRIFT_PPB_MAX);
    i64::try_from(product / 1_000_000_000 + 1).unwrap_or(i64::MAX / 4)
}

fn midpoint(one: i64, other: i64) -> i64 {
    one + (other - one) / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A clock that is `ahead_ns` ahead when this one shows 0, and drifts.
    fn there(here_ns: i64, ahead_ns: i64, drift_ppb: i64) -> i64 {
        let drifted = i128::from(here_ns) * i128::from(drift_ppb) / 1_000_000_000;
        here_ns + ahead_ns + i64::try_from(drifted).unwrap()
    }

    proptest! {
        /// Delays of both directions are random, and need not resemble each other.
        #[test]
        fn the_error_is_within_the_bound(
            ahead_ns in -50_000_000_000_000i64..50_000_000_000_000,
            drift_ppb in -DRIFT_PPB_MAX..DRIFT_PPB_MAX,
            delays in prop::collection::vec(
                (1i64..2_000_000_000, 0i64..50_000_000, 0i64..1_000_000, 0i64..200_000_000), 1..100),
            later_ns in 0i64..10_000_000_000,
        ) {
            let mut filter = ClockFilter::default();
            let mut here_ns = 0;
            for (pause_ns, out_ns, inside_ns, back_ns) in delays {
                let sent_ns = here_ns + pause_ns;
                let arrived_ns = sent_ns + out_ns;
                let answered_ns = arrived_ns + inside_ns;
                here_ns = answered_ns + back_ns;
                filter.add(Exchange {
                    sent_ns,
                    there_received_ns: there(arrived_ns, ahead_ns, drift_ppb),
                    there_sent_ns: there(answered_ns, ahead_ns, drift_ppb),
                    received_ns: here_ns,
                });
                let said = filter.at(here_ns + later_ns).unwrap();
                let moment_ns = here_ns + later_ns;
                let truth_ns = there(moment_ns, ahead_ns, drift_ppb) - moment_ns;
                prop_assert!((said.ahead_ns - truth_ns).abs() <= said.bound_ns + 1, "{said:?} {truth_ns}");
                prop_assert!(said.bound_ns >= 0);
            }
            prop_assert_eq!(filter.contradictions(), 0);
        }

        /// A quick exchange makes slow ones harmless.
        #[test]
        fn the_bound_is_that_of_the_quickest_exchange(slow in prop::collection::vec(1i64..1_000_000, 0..40)) {
            let mut filter = ClockFilter::default();
            filter.add(Exchange { sent_ns: 0, there_received_ns: 5, there_sent_ns: 5, received_ns: 10 });
            for trip_ns in slow {
                filter.add(Exchange {
                    sent_ns: 0, there_received_ns: trip_ns, there_sent_ns: trip_ns, received_ns: trip_ns + 5,
                });
            }
            let said = filter.at(10).unwrap();
            prop_assert!(said.bound_ns <= 5 + 2);
            prop_assert!(said.ahead_ns.abs() <= said.bound_ns);
        }
    }

    /// No exchange can tell the directions apart: the error is half of what they differ, and the bound knows.
    #[test]
    fn a_line_whose_directions_differ_moves_the_middle_by_half_of_that_within_the_bound() {
        let ahead_ns = 7_200_000_000_000;
        for (out_ns, back_ns) in [(30_000_000, 2_000_000), (0, 20_000_000), (5_000_000, 5_000_000)]
        {
            let mut filter = ClockFilter::default();
            for sent_ns in (0..64).map(|number| number * 40_000_000) {
                let there_ns = sent_ns + out_ns + ahead_ns;
                filter.add(Exchange {
                    sent_ns,
                    there_received_ns: there_ns,
                    there_sent_ns: there_ns,
                    received_ns: sent_ns + out_ns + back_ns,
                });
            }
            let here_ns = 63 * 40_000_000 + out_ns + back_ns;
            let said = filter.at(here_ns).unwrap();
            let error_ns = said.ahead_ns - ahead_ns;
            let drift_ns = drift(out_ns + back_ns);
            assert!((error_ns - (out_ns - back_ns) / 2).abs() <= drift_ns, "{error_ns}");
            assert!(error_ns.abs() <= said.bound_ns, "{error_ns} {said:?}");
            assert!(said.bound_ns <= midpoint(out_ns, back_ns) + drift_ns, "{said:?}");
        }
    }

    #[test]
    fn times_that_cannot_be_are_not_reckoned_with() {
        let sound =
            Exchange { sent_ns: 0, there_received_ns: 5, there_sent_ns: 6, received_ns: 10 };
        for wrong in [
            Exchange { there_sent_ns: i64::MIN, ..sound },
            Exchange { there_received_ns: i64::MAX, there_sent_ns: i64::MAX, ..sound },
            Exchange { there_received_ns: 6, there_sent_ns: 5, ..sound },
            Exchange { there_sent_ns: 5_000, ..sound },
        ] {
            let mut filter = ClockFilter::default();
            filter.add(wrong);
            assert_eq!((filter.at(10), filter.contradictions()), (None, 1), "{wrong:?}");
        }
    }

    #[test]
    fn a_clock_that_is_set_contradicts_what_it_was() {
        let at = |sent_ns: i64, ahead_ns: i64| Exchange {
            sent_ns,
            there_received_ns: sent_ns + 10 + ahead_ns,
            there_sent_ns: sent_ns + 10 + ahead_ns,
            received_ns: sent_ns + 20,
        };
        let mut filter = ClockFilter::default();
        let hour_ns = 3_600_000_000_000;
        filter.add(at(0, 0));
        filter.add(at(1_000, hour_ns));
        assert_eq!(filter.contradictions(), 1);
        let said = filter.at(1_020).unwrap();
        assert!((said.ahead_ns - hour_ns).abs() <= said.bound_ns, "{said:?}");
    }

    #[test]
    fn the_formula_of_the_paper_is_that_of_figure_6() {
        let exchange =
            Exchange { sent_ns: 100, there_received_ns: 90, there_sent_ns: 90, received_ns: 200 };
        assert_eq!(exchange.paper_difference_ns(), 60);
        assert_eq!(exchange.round_trip_ns(), 100);
    }
}
