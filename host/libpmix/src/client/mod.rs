//! Functions of clients and tools, on `peal_client`: one file for each group, such as sessions, data,
//! collectives, events, and one for the progress thread on which callbacks come.
