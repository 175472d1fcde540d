// Package mongodb keeps rate limit states in a collection of MongoDB, one
// document a key, and is shared by all the nodes that open it.
//
// # How it works
//
// A change is a look and a compare-and-set: one read brings the document and
// the server's clock, one update writes if the document's version is still the
// one that was read, and else both are done again. That is two trips for a
// change, one for a denial or a look, and no lock. The clock is $$NOW, which has
// milliseconds.
//
// A document is changed atomically, several are not: the store uses no
// transactions, which need a replica set and would abort each other on a busy
// key. So [Store.Together] is true of one key only, and a limiter takes several
// limits of a request one after another and gives back what it spent before a
// denial. What was given back may for a moment have been missing to others.
//
// A document that has expired counts as none. MongoDB removes it by the TTL
// index that [Migrate] makes, a minute later or two. On a server without a TTL
// monitor they stay.
//
// Rules may be in a collection, too: [Store.Rules].
//
// # What to set
//
// The URL sets everything about the connection: TLS, the user, timeouts, the
// size of the pool. Two of its parameters decide what a limit is worth when a
// primary fails:
//
//   - w: leave it to the server, which waits for a majority since MongoDB 5.0,
//     or set w=majority. With w=1 a new primary may not know the newest changes,
//     and what they spent can be spent again. [Open] refuses w=0.
//   - readPreference: Open refuses all but primary. A secondary lags behind, so
//     it admits too much.
//
// The user needs the role readWrite on the database.
//
// # What it was tried on
//
// All the tests, limittest and rulestest with two clients included, pass on mongo-java-server
// 1.47.0, made to claim the version of MongoDB 4.4, which is the oldest that the
// driver speaks to. It executes one command after another and so is more orderly
// than MongoDB. STINT_TEST_MONGODB_URL names a MongoDB to run them on. As long
// as nobody has done that, take as not tried: MongoDB itself, the fail-over of a
// replica set, sharded clusters, TLS, and users and their passwords.
package mongodb
