import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.CollectionOptions;
import de.bwaldvogel.mongo.backend.CursorRegistry;
import de.bwaldvogel.mongo.backend.DatabaseResolver;
import de.bwaldvogel.mongo.backend.QueryResult;
import de.bwaldvogel.mongo.backend.aggregation.Aggregation;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import de.bwaldvogel.mongo.backend.memory.MemoryCollection;
import de.bwaldvogel.mongo.backend.memory.MemoryDatabase;
import de.bwaldvogel.mongo.bson.Document;
import de.bwaldvogel.mongo.oplog.Oplog;
import io.netty.channel.Channel;
import java.net.InetSocketAddress;
import java.util.List;

/**
 * Serves MongoDB's protocol, from memory, on the port of loopback that is its argument. It has one
 * thread, so commands are executed one after another.
 */
public class Server {
    public static void main(String[] args) {
        var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0]));
        var backend = new Backend().version(new Version(List.of(4, 4, 0), 9));
        new MongoServer(backend).bind(address, 1, 1);
    }

    /** The oldest version that today's drivers talk to. The server itself only claims an older one. */
    record Version(List<Integer> getVersionArray, int getWireVersion) implements MongoVersion {}

    static class Backend extends MemoryBackend {
        @Override
        public MemoryDatabase openOrCreateDatabase(String name) {
            return new Database(name, getCursorRegistry());
        }
    }

    static class Database extends MemoryDatabase {
        Database(String name, CursorRegistry cursors) {
            super(name, cursors);
        }

        @Override
        protected MemoryCollection openOrCreateCollection(String name, CollectionOptions options) {
            return new Collection(this, name, options, cursorRegistry);
        }

        @Override
        public Document handleCommand(Channel channel, String command, Document query, DatabaseResolver databases, Oplog oplog) {
            if (!(command.equals("aggregate") && resolveCollection((String) query.get(command), false) instanceof Collection collection)) {
                return super.handleCommand(channel, command, query, databases, oplog);
            }
            collection.matched = (Document) Aggregation.parse(query.get("pipeline")).get(0).get("$match");
            try {
                return super.handleCommand(channel, command, query, databases, oplog);
            } finally {
                collection.matched = null;
            }
        }
    }

    /**
     * A collection that finds documents by their _id also where a query asks for more than that, and
     * at the beginning of an aggregation. What it is derived from reads them all.
     */
    static class Collection extends MemoryCollection {
        /** What the aggregation that is under way begins with, or null. */
        Document matched;

        Collection(Database database, String name, CollectionOptions options, CursorRegistry cursors) {
            super(database, name, options, cursors);
        }

        @Override
        public Iterable<Document> queryAll() {
            return matched == null ? super.queryAll() : handleQuery(matched);
        }

        @Override
        protected QueryResult queryDocuments(Document query, Document order, int skip, int limit, int batch, Document projection) {
            if (query.containsKey("_id")) {
                var byId = new Document("_id", query.get("_id"));
                for (var index : getIndexes()) {
                    if (index.canHandle(byId)) {
                        return matchDocuments(query, index.getPositions(byId), order, skip, limit, batch, projection);
                    }
                }
            }
            return super.queryDocuments(query, order, skip, limit, batch, projection);
        }
    }
}
