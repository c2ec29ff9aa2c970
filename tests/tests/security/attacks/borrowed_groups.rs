//! A user does not become a member of a group by means of a program with the rights of that group.
use super::{ATTACKER, attack_beside};
use peal_needs::needs;
use peal_tests::{daemon::Place, run};
use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
};

/// Group whose rights the program has.
const GROUP: u32 = 65_530;

#[needs(prepared, root)]
#[test]
fn program_with_rights_of_a_group_proves_no_membership() {
    let place = Place::new();
    let daemon = place.start();
    let address = super::address(&daemon);
    fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
    let program = |name: &str, group: u32, mode: u32| {
        let program = place.path(name);
        fs::copy("/bin/sleep", &program).unwrap();
        chown(&program, None, Some(group)).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(mode)).unwrap();
        program.to_str().unwrap().to_owned()
    };
    let borrowed = program("borrowed", GROUP, 0o2755);
    let own = program("own", GROUP, 0o755);
    let tried = |program: &str, group: u32| {
        let mut command = attack_beside(
            ATTACKER,
            &["borrow-group", &address, program, &group.to_string()],
        );
        run(&mut command).expect_status(0).stdout.trim().to_owned()
    };
    assert_eq!(
        tried(&own, ATTACKER),
        "admitted",
        "in one's own group, by another process of one's own"
    );
    assert_eq!(tried(&own, GROUP), "refused");
    assert_eq!(tried(&borrowed, GROUP), "refused");
}
