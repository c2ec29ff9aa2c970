//! Functions that need no server: strings of numbers, lists of strings, lists of infos, construction,
//! destruction, loading and copying of structures, packing. One file for each group.
