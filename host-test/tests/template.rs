//! Chat templates as tables: what each family writes, chats that grow, and what is refused.
//!
//! The packer has compared every table with its template already; here the wanted texts are written out by hand, so
//! that a mistake in running templates would show too.

#[path = "template/build.rs"]
mod build;
#[path = "template/families.rs"]
mod families;
#[path = "template/following.rs"]
mod following;
#[path = "template/hostile.rs"]
mod hostile;
#[path = "template/support.rs"]
mod support;
