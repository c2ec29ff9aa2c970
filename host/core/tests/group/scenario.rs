//! Random groups, methods, orders, delays, duplicate calls and losses at any step: all survivors
//! have the same result.
use super::{
    random::Random,
    sim::{Made, Order, Sim, proc},
};
use peal_core::group::{
    ConstructDirectives, ConstructRequest, ConstructRole, FailureResponse, Formed, GroupCallResult,
    GroupFailure, ServerId,
};
use peal_model::{Proc, Status, code};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A step at some time.
#[derive(Debug, Clone)]
enum Deed {
    Construct(Proc, String, ConstructRequest, Option<u64>),
    Destruct(Proc, String, Option<u64>),
    /// A construct or destruct of a refused proc.
    Refuse(Proc, String, Option<ConstructRequest>),
    Leave(Proc, String),
    Die(Proc),
    ServerDies(ServerId),
    Say(Proc, String, FailureResponse),
    Pass(u64),
}

/// A planned group.
#[derive(Debug)]
struct Plan {
    name: String,
    leaders: Vec<Proc>,
    added: Vec<Proc>,
    wishes: ConstructDirectives,
    order: Option<Vec<Proc>>,
    /// The refused one of them.
    refused: Option<Proc>,
    /// True if the plan has no contradictions.
    is_sound: bool,
}

impl Plan {
    /// Returns true if a call is made by a planned member.
    fn is_of(&self, made: &Made) -> bool {
        let is_outsider = made.is_refused && self.refused.as_ref() != Some(&made.proc);
        made.group == self.name && (made.construct.is_none() || !is_outsider)
    }

    /// Returns the formed group that any caller was notified of, dead or alive.
    fn formed(&self, sim: &Sim) -> Option<Arc<Formed>> {
        sim.made
            .iter()
            .filter(|made| self.is_of(made))
            .find_map(|made| match made.answers.first() {
                Some(GroupCallResult::Formed(formed)) => Some(formed.clone()),
                _ => None,
            })
    }
}

/// The losses that may happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weather {
    /// None.
    Calm,
    /// Procs and servers end.
    Storm,
    /// Procs end unnoticed.
    Blind,
}

/// Runs one case. An error describes the violation.
pub fn run(seed: u64, order: Order, weather: Weather) -> Result<(), String> {
    let mut random = Random(seed);
    let servers = if random.percent(50) {
        1 + random.below(4)
    } else {
        1 + random.below(16)
    } as u32;
    let procs = 1 + random.below(4) as u32;
    let everybody: Vec<Proc> = (1..=servers)
        .flat_map(|s| (0..procs).map(move |r| proc(s, r)))
        .collect();
    let plans: Vec<Plan> = (0..=random.below(3))
        .map(|n| plan(&mut random, n, &everybody))
        .collect();
    let mut deeds: Vec<Deed> = plans
        .iter()
        .flat_map(|plan| calls(&mut random, plan, &everybody))
        .collect();
    if weather != Weather::Calm {
        for _ in 0..random.below(4) {
            let victim = everybody[random.below(everybody.len())].clone();
            deeds.push(Deed::Die(victim));
        }
    }
    if weather == Weather::Storm && servers > 1 {
        for _ in 0..random.below(servers.min(4) as usize) {
            deeds.push(Deed::ServerDies(ServerId(
                1 + random.below(servers as usize) as u32,
            )));
        }
    }
    for plan in plans.iter().filter(|plan| plan.wishes.leads) {
        let by = plan.leaders[random.below(plan.leaders.len())].clone();
        let saying = [
            FailureResponse::Abort,
            FailureResponse::Continue,
            FailureResponse::Lead,
        ][random.below(3)];
        deeds.push(Deed::Say(by, plan.name.clone(), saying));
    }
    deeds.extend((0..random.below(4)).map(|_| Deed::Pass(random.next() % 9000)));
    random.shuffle(&mut deeds);
    let mut sim = Sim::new(servers, procs, random.next(), order);
    sim.overlooks_deaths = weather == Weather::Blind;
    for deed in deeds {
        // Some of what is on its way arrives first.
        for _ in 0..random.below(12) {
            sim.deliver();
        }
        act(&mut sim, deed);
    }
    sim.come_to_rest()?;
    constructs_agree(&sim, &plans)?;
    memberships_agree(&sim)?;
    those_who_bear_deaths_do(&sim, &plans)?;
    if weather == Weather::Calm {
        sound_plans_succeed(&sim, &plans)?;
    }
    nothing_comes_of_what_somebody_may_not(&sim, &plans, weather)?;
    dissolve(&mut sim, &mut random, &plans, weather)?;
    memberships_agree(&sim)?;
    sim.ends()
}

fn act(sim: &mut Sim, deed: Deed) {
    match deed {
        Deed::Construct(proc, group, construct, timeout) => {
            // Calls are made twice while the first waits; what is called once more later is another group.
            let ended =
                |made: &Made| made.proc == proc && made.group == group && !made.answers.is_empty();
            if !sim.made.iter().any(ended) {
                sim.construct(&proc, &group, construct, timeout);
            }
        }
        Deed::Refuse(proc, group, construct) => sim.refuse(&proc, &group, construct),
        Deed::Destruct(proc, group, timeout) => sim.destruct(&proc, &group, timeout),
        Deed::Leave(proc, group) => sim.leave(&proc, &group),
        Deed::Die(proc) => sim.die(&proc),
        Deed::ServerDies(server) => {
            // Somebody must be left to agree.
            if sim.servers.len() > 1 {
                sim.server_dies(server);
            }
        }
        Deed::Say(proc, group, saying) => sim.say(&proc, &group, saying),
        Deed::Pass(time) => sim.pass(time),
    }
}

fn plan(random: &mut Random, number: usize, everybody: &[Proc]) -> Plan {
    let many = 1 + random.below(everybody.len());
    let mut members = random.some(everybody, many);
    let added = if random.percent(40) {
        members.split_off(1 + random.below(members.len()))
    } else {
        Vec::new()
    };
    let wishes = ConstructDirectives {
        context_id: random.percent(50),
        optional: random.percent(20),
        fault_tolerant: random.percent(20),
        notify: random.percent(50),
        leads: random.percent(25),
        local_only: false,
    };
    let order = random.percent(25).then(|| {
        let mut all: Vec<Proc> = members.iter().chain(&added).cloned().collect();
        random.shuffle(&mut all);
        all
    });
    let all: Vec<Proc> = members.iter().chain(&added).cloned().collect();
    let refused = random
        .percent(15)
        .then(|| all[random.below(all.len())].clone());
    let name = format!("group{number}");
    Plan {
        name,
        leaders: members,
        added,
        wishes,
        order,
        refused,
        is_sound: !random.percent(15),
    }
}

/// The calls of participants.
fn calls(random: &mut Random, plan: &Plan, everybody: &[Proc]) -> Vec<Deed> {
    let bootstrap = random.percent(50);
    let mut deeds = Vec::new();
    let odd = random.below(plan.leaders.len());
    // Somebody who is not meant, and may not, wants the same name; who was added goes by that alone.
    let outsider = everybody.iter().find(|proc| !plan.leaders.contains(proc));
    if let Some(outsider) =
        outsider.filter(|_| !bootstrap && plan.added.is_empty() && random.percent(25))
    {
        let named = plan
            .leaders
            .iter()
            .take(2)
            .chain([outsider])
            .cloned()
            .collect();
        let construct = ConstructRequest::of(ConstructRole::Leader(named));
        deeds.push(Deed::Refuse(
            outsider.clone(),
            plan.name.clone(),
            Some(construct),
        ));
    }
    for (n, leader) in plan.leaders.iter().enumerate() {
        let mut named: BTreeSet<Proc> = plan.leaders.iter().cloned().collect();
        let mut count = plan.leaders.len();
        if !plan.is_sound && n == odd {
            count += 1;
            named.insert(proc(1, 0));
        }
        let role = if bootstrap {
            ConstructRole::Bootstrap(count)
        } else {
            ConstructRole::Leader(named.into_iter().collect())
        };
        // Any of those who lead may add some of them.
        let additions = plan
            .added
            .iter()
            .enumerate()
            .filter(|(i, _)| i % plan.leaders.len() == n)
            .map(|(_, p)| p.clone());
        let leads = plan.wishes.leads && n == 0;
        let construct = ConstructRequest {
            directives: ConstructDirectives {
                leads,
                ..plan.wishes
            },
            additions: additions.collect(),
            order: plan.order.clone(),
            ..ConstructRequest::of(role)
        };
        if plan.refused.as_ref() == Some(leader) {
            deeds.push(Deed::Refuse(
                leader.clone(),
                plan.name.clone(),
                Some(construct),
            ));
            continue;
        }
        let timeout = random.percent(30).then(|| 1000 + random.next() % 30_000);
        deeds.push(Deed::Construct(
            leader.clone(),
            plan.name.clone(),
            construct.clone(),
            timeout,
        ));
        if random.percent(10) {
            deeds.push(Deed::Construct(
                leader.clone(),
                plan.name.clone(),
                construct,
                timeout,
            ));
        }
    }
    for member in &plan.added {
        let construct = ConstructRequest::of(ConstructRole::Member);
        deeds.push(match plan.refused.as_ref() == Some(member) {
            true => Deed::Refuse(member.clone(), plan.name.clone(), Some(construct)),
            false => Deed::Construct(member.clone(), plan.name.clone(), construct, None),
        });
    }
    deeds
}

/// The result of one group for one survivor.
type Ending = Result<Arc<Formed>, Status>;

fn ending(answer: &GroupCallResult) -> Ending {
    match answer {
        GroupCallResult::Formed(formed) => Ok(formed.clone()),
        answer => Err(Sim::status(answer)),
    }
}

/// Checks that each surviving first caller has one answer, and that the answers for one group are
/// equal.
fn constructs_agree(sim: &Sim, plans: &[Plan]) -> Result<(), String> {
    for plan in plans {
        let of_plan = |made: &&Made| {
            plan.is_of(made) && made.construct.is_some() && sim.alive.contains(&made.proc)
        };
        let mut endings: Vec<(&Made, Ending)> = Vec::new();
        for made in sim.made.iter().filter(of_plan) {
            let [answer] = &made.answers[..] else {
                return Err(format!("{} answers to {made:?}", made.answers.len()));
            };
            if !made.is_second {
                endings.push((made, ending(answer)));
            }
        }
        // Who was to be added by somebody who ended before, and is not missed, is expected by nobody; also where those who did form
        // the group have ended since.
        let formed = plan.formed(sim);
        let goes_on = plan.wishes.fault_tolerant || plan.wishes.optional || plan.wishes.leads;
        if let Some(formed) = formed.filter(|_| goes_on) {
            endings.retain(|(made, _)| {
                formed.members.contains(&made.proc) || !plan.added.contains(&made.proc)
            });
        }
        // Who names others than somebody else does is awaited by nobody: all fail, each in its way.
        let same = |one: &Ending, other: &Ending| {
            one == other || (!plan.is_sound && one.is_err() && other.is_err())
        };
        if let Some((first, ending)) = endings.first()
            && let Some((other, different)) = endings.iter().find(|(_, other)| !same(other, ending))
        {
            return Err(format!(
                "{} ends with {ending:?}, {} with {different:?}",
                first.proc, other.proc
            ));
        }
    }
    Ok(())
}

/// All servers that know of a group know the same, and only such as are there.
fn memberships_agree(sim: &Sim) -> Result<(), String> {
    let mut known: BTreeMap<_, (&Arc<Formed>, Vec<Proc>)> = BTreeMap::new();
    for (server, groups) in &sim.servers {
        for (key, formed) in groups.known() {
            let members = groups.members(key).unwrap();
            if let Some(dead) = members.iter().find(|member| !sim.alive.contains(member)) {
                return Err(format!(
                    "server {server:?} has {dead} in {key:?}, who is dead"
                ));
            }
            let first = known
                .entry(key.clone())
                .or_insert_with(|| (formed, members.clone()));
            if *first != (formed, members.clone()) {
                return Err(format!(
                    "servers differ about {key:?}: {first:?} and {members:?}"
                ));
            }
        }
    }
    Ok(())
}

/// Checks that plans without losses or contradictions form their groups, unless the time was too
/// short.
fn sound_plans_succeed(sim: &Sim, plans: &[Plan]) -> Result<(), String> {
    for plan in plans
        .iter()
        .filter(|plan| plan.is_sound && plan.refused.is_none())
    {
        let mut meant: Vec<Proc> = plan.leaders.iter().chain(&plan.added).cloned().collect();
        match &plan.order {
            Some(order) => meant.clone_from(order),
            None => meant.sort(),
        }
        for made in sim
            .made
            .iter()
            .filter(|made| plan.is_of(made) && !made.is_second)
        {
            match made.answers.first() {
                Some(GroupCallResult::Formed(formed)) if !formed.members.iter().eq(&meant) => {
                    return Err(format!("{:?} instead of {meant:?}", formed.members));
                }
                Some(GroupCallResult::Formed(formed))
                    if formed.context_id.is_some() != plan.wishes.context_id =>
                {
                    return Err(format!("context id {:?}", formed.context_id));
                }
                Some(GroupCallResult::Failed(failure))
                    if failure.status != code::PMIX_ERR_TIMEOUT && !aborted(failure.status) =>
                {
                    return Err(format!("{made:?} should have succeeded"));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Checks that a refused member prevents the group unless it has died, and that its notifications
/// carry the reason.
fn nothing_comes_of_what_somebody_may_not(
    sim: &Sim,
    plans: &[Plan],
    weather: Weather,
) -> Result<(), String> {
    for plan in plans {
        let of_plan =
            |made: &&Made| plan.is_of(made) && made.construct.is_some() && !made.is_second;
        for made in sim
            .made
            .iter()
            .filter(of_plan)
            .filter(|_| plan.refused.is_some())
        {
            // Whoever adds somebody may have died before it could say so.
            let is_meant =
                |refused: &Proc| weather == Weather::Calm || plan.leaders.contains(refused);
            let is_there = plan
                .refused
                .as_ref()
                .is_some_and(|who| sim.alive.contains(who) && is_meant(who));
            match made.answers.first() {
                Some(GroupCallResult::Formed(_)) if is_there => {
                    return Err(format!(
                        "{made:?} of a group that may not be, {:?}",
                        plan.refused
                    ));
                }
                Some(GroupCallResult::Failed(failure))
                    if weather == Weather::Calm
                        && plan.is_sound
                        && !is_refusal(failure)
                        && !may_be(failure.status) =>
                {
                    return Err(format!(
                        "{made:?} should have failed since {:?} may not",
                        plan.refused
                    ));
                }
                _ => {}
            }
        }
    }
    for made in sim.made.iter().filter(|made| made.construct.is_some()) {
        let is_told = made.answers.iter().any(
            |answer| matches!(answer, GroupCallResult::Failed(failure) if is_refusal(failure)),
        );
        let hears = sim.heard.iter().any(|heard| {
            (&heard.proc, heard.code, &heard.group)
                == (&made.proc, code::PMIX_GROUP_CONSTRUCT_ABORT, &made.group)
        });
        if is_told != hears && !made.is_second {
            return Err(format!(
                "{made:?}, which hears {}why",
                if is_told { "not " } else { "" }
            ));
        }
    }
    Ok(())
}

fn is_refusal(failure: &GroupFailure) -> bool {
    failure.refusal.is_some() && failure.status == code::PMIX_ERR_NO_PERMISSIONS
}

/// Statuses that may precede any other result.
fn may_be(status: Status) -> bool {
    status == code::PMIX_ERR_TIMEOUT || aborted(status)
}

/// Checks that tolerated losses fail no construct.
fn those_who_bear_deaths_do(sim: &Sim, plans: &[Plan]) -> Result<(), String> {
    for plan in plans
        .iter()
        .filter(|plan| plan.is_sound && plan.wishes.fault_tolerant && !plan.wishes.leads)
    {
        let of_plan = |made: &&Made| plan.is_of(made) && made.construct.is_some();
        let aborted = |made: &&Made| {
            made.answers
                .iter()
                .any(|answer| aborted(Sim::status(answer)))
        };
        if let Some(made) = sim.made.iter().filter(of_plan).find(aborted) {
            return Err(format!("{made:?} was given up because of a death"));
        }
    }
    Ok(())
}

/// Returns true for an abort, which a leader may request at any time.
fn aborted(status: Status) -> bool {
    status == code::PMIX_GROUP_CONSTRUCT_ABORT
}

/// Checks destructs while members leave or die: all surviving callers have the same answer.
fn dissolve(
    sim: &mut Sim,
    random: &mut Random,
    plans: &[Plan],
    weather: Weather,
) -> Result<(), String> {
    let mut deeds = Vec::new();
    for plan in plans {
        let Some(formed) = plan.formed(sim) else {
            continue;
        };
        for member in formed.members.iter() {
            match random.below(12) {
                0 => deeds.push(Deed::Leave(member.clone(), plan.name.clone())),
                1 if weather == Weather::Storm => deeds.push(Deed::Die(member.clone())),
                3 => deeds.push(Deed::Refuse(member.clone(), plan.name.clone(), None)),
                2 if weather == Weather::Storm => {
                    deeds.push(Deed::ServerDies(sim.homes[&member.nspace]))
                }
                _ => {
                    let timeout = random.percent(20).then(|| 1000 + random.next() % 30_000);
                    deeds.push(Deed::Destruct(member.clone(), plan.name.clone(), timeout));
                }
            }
        }
    }
    random.shuffle(&mut deeds);
    let first = sim.made.len();
    for deed in deeds {
        for _ in 0..random.below(12) {
            sim.deliver();
        }
        act(sim, deed);
    }
    sim.come_to_rest()?;
    for plan in plans {
        let theirs = |made: &&Made| made.group == plan.name && sim.alive.contains(&made.proc);
        let ends: Vec<Status> = sim.made[first..]
            .iter()
            .filter(theirs)
            .map(|made| Sim::status(&made.answers[0]))
            .collect();
        if let Some(other) = ends.iter().find(|other| **other != ends[0]) {
            return Err(format!(
                "{:?} ends with {:?} and {other:?}",
                plan.name, ends[0]
            ));
        }
    }
    Ok(())
}
