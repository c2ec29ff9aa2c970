//! Permissions of the users of a NATS server: the least with which a node and the administrator work.
use crate::{
    streams::ClusterStream,
    subjects::{ClusterSubject, ClusterSubjects},
};
use peal_model::NodeName;
use serde::Serialize;

/// Rights of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeKind {
    /// The node takes part.
    Plain,
    /// The node also deploys modules to all nodes.
    Deployer,
}

/// Subjects of one user of a NATS server. Everything else is denied.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SubjectPermissions {
    /// Subjects to which the user may publish.
    pub publish: Vec<String>,
    /// Subjects to which the user may subscribe.
    pub subscribe: Vec<String>,
}

impl SubjectPermissions {
    /// Returns the permissions of a node. It publishes only where it is the named sender, and reads
    /// streams by requests whose answers it does not choose: neither `DIRECT.GET` nor consumers of its own,
    /// whose answers hold the bytes of a stored message and go to any subject.
    /// Only a deployer publishes records of the deployment of modules.
    pub fn of_node(
        subjects: &ClusterSubjects,
        node: &NodeName,
        kind: NodeKind,
    ) -> SubjectPermissions {
        let own = |subject: ClusterSubject| subjects.text(&subject);
        let mut publish = vec![
            own(ClusterSubject::Broadcast { from: node.clone() }),
            subjects.messages_from(node),
            own(ClusterSubject::Member { node: node.clone() }),
            own(ClusterSubject::Verdict { by: node.clone() }),
            own(ClusterSubject::Seal { node: node.clone() }),
            own(ClusterSubject::Readiness { node: node.clone() }),
            subjects.objects_of(node),
            subjects.asks_from(node),
            subjects.answers_from(node),
        ];
        if kind == NodeKind::Deployer {
            publish.push(own(ClusterSubject::Deployment { by: node.clone() }));
        }
        for stream in ClusterStream::ALL {
            publish.extend(subjects.reads(stream));
        }
        publish.push(subjects.reads_consumer());
        SubjectPermissions {
            publish,
            subscribe: vec![
                subjects.broadcasts(),
                subjects.messages_to(node),
                subjects.sequenced(),
                subjects.stored_in_modules(),
                subjects.asks_to(node),
                subjects.inbox(node),
            ],
        }
    }

    /// Returns the permissions of the administrator, who sets streams up and can delete none.
    pub fn of_administrator(subjects: &ClusterSubjects) -> SubjectPermissions {
        SubjectPermissions {
            publish: ClusterStream::ALL
                .into_iter()
                .flat_map(|stream| subjects.set_up(stream))
                .chain(subjects.set_up_consumer())
                .collect(),
            subscribe: vec![subjects.administration()],
        }
    }
}
