//! Which algorithm takes a rule-based or a learned candidate, or a policy; algorithms are built with what they take.

use crate::Algorithm;
use crate::registry::{all, find};
use crate::spec::{Build, BuildError, Slot, Spec};

/// Names of the algorithms that have it.
fn takers(slot: Slot) -> Vec<&'static str> {
    all().iter().filter(|spec| slot.is_in(spec)).map(|spec| spec.name).collect()
}

/// True unless `algorithm` is known to lack it: who finds the algorithm has to refuse an unknown name.
fn fits(slot: Slot, algorithm: &str) -> bool {
    // What a transport runs by itself is in no registry and takes nothing.
    let transports = algorithm == "native" || algorithm.contains(':');
    find(algorithm).map_or(!transports, |spec| slot.is_in(spec))
}

/// What fills the slots; `None` for the algorithm's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// The rule-based candidate.
    pub classic: Option<String>,
    /// The learned candidate, or the policy.
    pub policy: Option<String>,
}

impl Slots {
    /// Refuses what `algorithm` does not take.
    pub fn check(&self, algorithm: &str) -> Result<(), BuildError> {
        for (slot, value) in [(Slot::Classic, &self.classic), (Slot::Policy, &self.policy)] {
            if let Some(value) = value.as_ref().filter(|_| !fits(slot, algorithm)) {
                let (algorithm, value) = (algorithm.to_string(), value.clone());
                return Err(BuildError::NoSlot { algorithm, slot, value, takers: takers(slot) });
            }
        }
        Ok(())
    }

    /// Without what `algorithm` does not take.
    pub fn of(&self, algorithm: &str) -> Slots {
        let kept = |slot: Slot, value: &Option<String>| value.clone().filter(|_| fits(slot, algorithm));
        Slots { classic: kept(Slot::Classic, &self.classic), policy: kept(Slot::Policy, &self.policy) }
    }

    /// For a list of algorithms, what each of them takes. What none of them takes stays, so that it is refused.
    pub fn of_each<'a>(&self, algorithms: impl IntoIterator<Item = &'a str> + Clone) -> Vec<Slots> {
        let taken = |slot: Slot| algorithms.clone().into_iter().any(|algorithm| fits(slot, algorithm));
        let (classic, policy) = (taken(Slot::Classic), taken(Slot::Policy));
        let each = algorithms.into_iter().map(|algorithm| {
            let own = self.of(algorithm);
            Slots {
                classic: if classic { own.classic } else { self.classic.clone() },
                policy: if policy { own.policy } else { self.policy.clone() },
            }
        });
        each.collect()
    }
}

impl Spec {
    /// One for a flow.
    pub fn build(&self, what: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
        let slots = Slots { classic: what.classic.clone(), policy: what.policy.clone() };
        slots.check(self.name)?;
        (self.builder)(what)
    }
}

/// Builds the algorithm with this name.
pub fn build(name: &str, build: &Build) -> Result<Box<dyn Algorithm>, BuildError> {
    find(name)?.build(build)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(classic: Option<&str>, policy: Option<&str>) -> Slots {
        Slots { classic: classic.map(String::from), policy: policy.map(String::from) }
    }

    #[test]
    fn what_means_nothing_is_refused_with_the_way_out() {
        let refusal = |slots: Slots, algorithm| slots.check(algorithm).err().unwrap().to_string();
        assert_eq!(
            refusal(slots(Some("reno"), None), "cubic"),
            "cubic takes no rule-based candidate (\"reno\"); leave it out, or run one that does: anole, libra"
        );
        let policy = refusal(slots(None, Some("libra")), "native");
        assert!(
            policy.starts_with(
                "native takes no policy (\"libra\"); leave it out, or run one that does: anole, "
            )
        );
        assert!(slots(Some("reno"), Some("libra")).check("anole").is_ok());
        assert!(slots(None, Some("libra")).check("libra-rl").is_ok());
        assert!(slots(Some("reno"), None).check("libra-rl").is_err());
        // Its name is what is wrong with it.
        assert!(slots(Some("reno"), None).check("anol").is_ok());
    }

    #[test]
    fn of_a_list_each_takes_what_it_has_a_slot_for_and_one_has_to() {
        let given = slots(Some("reno"), Some("libra"));
        let each = given.of_each(["anole", "cubic", "libra-rl"]);
        assert_eq!(each, [given.clone(), slots(None, None), slots(None, Some("libra"))]);
        assert_eq!(given.of_each(["cubic", "bbr"]), [given.clone(), given.clone()]);
        assert_eq!(given.of_each(["cubic", "orca"])[0], slots(Some("reno"), None));
    }
}
