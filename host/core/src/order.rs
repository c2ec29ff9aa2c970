//! The order in which the handlers of one owner run.
//!
//! It is the order of RFC 0002 with the later placement directives: FIRST; then single-code,
//! multi-code and default registrations; then LAST. Inside a category: FIRST_IN_CATEGORY, the list,
//! LAST_IN_CATEGORY.
use crate::{
    chain::{ChainMember, ChainRun},
    class::EventSummary,
    event_targets::EventTargets,
    registration::{
        Category, ChainPart, ChainPlacement, HandlerRegistration, Mode, RegistrationError,
        RegistrationId,
    },
};
use peal_model::Event;
use std::{collections::VecDeque, sync::Arc};

/// A position that one active handler may hold, with any number of shadow handlers.
#[derive(Clone, Debug)]
struct Slot<H>(Vec<Arc<ChainMember<H>>>);

impl<H> Default for Slot<H> {
    fn default() -> Self {
        Slot(Vec::new())
    }
}

impl<H> Slot<H> {
    fn fill(
        &mut self,
        place: &'static str,
        entry: Arc<ChainMember<H>>,
    ) -> Result<(), RegistrationError> {
        // Shadow handlers occupy no position, so any number of them fits beside an active one.
        let takes_part = |entry: &&Arc<ChainMember<H>>| entry.registration.mode == Mode::Active;
        if let (Some(holder), true) = (self.0.iter().find(takes_part), takes_part(&&entry)) {
            return Err(RegistrationError::Taken {
                place,
                holder: holder.registration.name.to_string(),
            });
        }
        self.0.push(entry);
        Ok(())
    }

    fn take(&mut self, id: RegistrationId) -> Option<Arc<ChainMember<H>>> {
        self.0
            .iter()
            .position(|entry| entry.id == id)
            .map(|at| self.0.remove(at))
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|entry| *entry.registration.name == *name)
    }
}

/// The handlers of one category.
#[derive(Clone, Debug)]
struct Bucket<H> {
    first: Slot<H>,
    list: Vec<Arc<ChainMember<H>>>,
    last: Slot<H>,
}

impl<H> Default for Bucket<H> {
    fn default() -> Self {
        Bucket {
            first: Slot::default(),
            list: Vec::new(),
            last: Slot::default(),
        }
    }
}

impl<H> Bucket<H> {
    fn iter(&self) -> impl Iterator<Item = &Arc<ChainMember<H>>> {
        self.first.0.iter().chain(&self.list).chain(&self.last.0)
    }

    fn insert_at(&mut self, at: usize, entry: Arc<ChainMember<H>>) {
        // The end of the list is given as the largest index.
        self.list.insert(at.min(self.list.len()), entry);
    }

    fn take(&mut self, id: RegistrationId) -> Option<Arc<ChainMember<H>>> {
        let listed = || {
            self.list
                .iter()
                .position(|entry| entry.id == id)
                .map(|at| self.list.remove(at))
        };
        self.first
            .take(id)
            .or_else(|| self.last.take(id))
            .or_else(listed)
    }

    /// Returns the index in the list for a handler next to `name`; `offset` is 0 for before it and
    /// 1 for after it.
    fn beside(&self, name: &str, offset: usize) -> Option<Result<usize, RegistrationError>> {
        let beyond = |place| RegistrationError::Beyond {
            name: name.to_owned(),
            place,
        };
        if self.first.has(name) {
            return Some(if offset == 0 {
                Err(beyond("FIRST_IN_CATEGORY"))
            } else {
                // The list begins right after the first handler of the category.
                Ok(0)
            });
        }
        if let Some(at) = self
            .list
            .iter()
            .position(|entry| *entry.registration.name == *name)
        {
            return Some(Ok(at + offset));
        }
        self.last.has(name).then(|| {
            if offset == 1 {
                Err(beyond("LAST_IN_CATEGORY"))
            } else {
                Ok(self.list.len())
            }
        })
    }
}

/// The registrations of one owner, in the order in which their handlers run. `H` is the handler.
#[derive(Clone, Debug)]
pub struct Registrations<H> {
    first: Slot<H>,
    single: Bucket<H>,
    multi: Bucket<H>,
    default: Bucket<H>,
    last: Slot<H>,
    next: u64,
}

impl<H> Default for Registrations<H> {
    fn default() -> Self {
        let single = Bucket::default();
        let multi = Bucket::default();
        let default = Bucket::default();
        Registrations {
            first: Slot::default(),
            single,
            multi,
            default,
            last: Slot::default(),
            next: 1,
        }
    }
}

impl<H> Registrations<H> {
    /// Creates an empty table that replaces another. Identifiers of the other table are not
    /// assigned again.
    pub fn instead_of<O>(others: &Registrations<O>) -> Registrations<H> {
        Registrations {
            next: others.next,
            ..Registrations::default()
        }
    }

    /// Adds a handler at its placement.
    ///
    /// # Errors
    ///
    /// Fails if the placement is taken or impossible.
    pub fn register(
        &mut self,
        registration: HandlerRegistration,
        handler: H,
    ) -> Result<RegistrationId, RegistrationError> {
        let id = RegistrationId(self.next);
        self.insert(Arc::new(ChainMember {
            id,
            registration: Arc::new(registration),
            handler,
        }))?;
        // Only now: a refused registration takes no identifier.
        self.next += 1;
        Ok(id)
    }

    /// Adds a registration of the replaced table under its old identifier.
    pub fn take_over(&mut self, member: Arc<ChainMember<H>>) -> Result<(), RegistrationError> {
        self.insert(member)
    }

    fn insert(&mut self, entry: Arc<ChainMember<H>>) -> Result<(), RegistrationError> {
        let category = entry.registration.codes.category();
        match entry.registration.place.clone() {
            ChainPlacement::First => self.first.fill("FIRST", entry)?,
            ChainPlacement::Last => self.last.fill("LAST", entry)?,
            ChainPlacement::FirstInCategory => self
                .bucket_mut(category)
                .first
                .fill("FIRST_IN_CATEGORY", entry)?,
            ChainPlacement::LastInCategory => self
                .bucket_mut(category)
                .last
                .fill("LAST_IN_CATEGORY", entry)?,
            ChainPlacement::Prepend => self.bucket_mut(category).insert_at(0, entry),
            ChainPlacement::Append => self.bucket_mut(category).insert_at(usize::MAX, entry),
            ChainPlacement::Before(name) => {
                let at = self.beside(category, &name, 0)?;
                self.bucket_mut(category).insert_at(at, entry);
            }
            ChainPlacement::After(name) => {
                let at = self.beside(category, &name, 1)?;
                self.bucket_mut(category).insert_at(at, entry);
            }
        }
        Ok(())
    }

    /// Removes a registration and returns it, if it exists.
    pub fn deregister(&mut self, id: RegistrationId) -> Option<Arc<ChainMember<H>>> {
        let outermost = self.first.take(id).or_else(|| self.last.take(id));
        outermost.or_else(|| {
            Category::ALL
                .into_iter()
                .find_map(|category| self.bucket_mut(category).take(id))
        })
    }

    /// Returns a registration, if it exists.
    pub fn get(&self, id: RegistrationId) -> Option<&Arc<ChainMember<H>>> {
        self.iter().find(|entry| entry.id == id)
    }

    /// Returns the registrations in the order in which their handlers run.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ChainMember<H>>> {
        let buckets = [&self.single, &self.multi, &self.default]
            .into_iter()
            .flat_map(Bucket::iter);
        self.first.0.iter().chain(buckets).chain(&self.last.0)
    }

    /// Returns true if there are no registrations.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    fn bucket(&self, category: Category) -> &Bucket<H> {
        match category {
            Category::Single => &self.single,
            Category::Multi => &self.multi,
            Category::Default => &self.default,
        }
    }

    fn bucket_mut(&mut self, category: Category) -> &mut Bucket<H> {
        match category {
            Category::Single => &mut self.single,
            Category::Multi => &mut self.multi,
            Category::Default => &mut self.default,
        }
    }

    fn beside(
        &self,
        ours: Category,
        name: &str,
        offset: usize,
    ) -> Result<usize, RegistrationError> {
        if let Some(found) = self.bucket(ours).beside(name, offset) {
            return found;
        }
        // These two positions are outside of all categories, and nothing goes beyond them.
        for (slot, place) in [(&self.first, "FIRST"), (&self.last, "LAST")] {
            if slot.has(name) {
                return Err(RegistrationError::Beyond {
                    name: name.to_owned(),
                    place,
                });
            }
        }
        // Other categories are searched only to name the obstacle in the error.
        let elsewhere = |category: &Category| self.bucket(*category).beside(name, offset).is_some();
        match Category::ALL.into_iter().find(elsewhere) {
            Some(existing) => Err(RegistrationError::OtherCategory {
                name: name.to_owned(),
                existing,
                requested: ours,
            }),
            None => Err(RegistrationError::NoSuchName {
                name: name.to_owned(),
            }),
        }
    }

    /// Returns the run of an event through the handlers that it matches.
    pub fn run(&self, event: Arc<Event>) -> ChainRun<H> {
        self.run_part(event, ChainPart::Whole)
    }

    /// Returns the run of an event through those handlers of a part of the chain that it matches.
    pub fn run_part(&self, event: Arc<Event>, part: ChainPart) -> ChainRun<H> {
        // Computed once for all registrations, because an event may name thousands of procs.
        let aim = EventTargets::of(&event);
        let head = EventSummary::of(&event, &aim);
        // Most events have one handler.
        let mut members = VecDeque::with_capacity(1);
        self.iter()
            .filter(|entry| entry.registration.is_in(part))
            .filter(|entry| entry.registration.is_for(&event, &head, &aim))
            .for_each(|entry| members.push_back(entry.clone()));
        ChainRun::new(members, event)
    }

    /// Returns the run of an event through one handler; none if the registration does not exist or
    /// does not match.
    pub fn run_one(&self, id: RegistrationId, event: Arc<Event>) -> Option<ChainRun<H>> {
        let member = self.get(id)?;
        member
            .registration
            .matches(&event)
            .then(|| ChainRun::new([member.clone()].into(), event))
    }
}
