"""The example of a configuration file that `rsmq-tui profiles example` prints."""

EXAMPLE = """\
# The servers that rsmq-tui knows by name: `rsmq-tui --profile NAME`.
# `rsmq-tui profiles` says where this file belongs, and lists what is in it.
# Nothing in it needs to be secret: it says where a password is kept, not what it is.

# The profile that is used when neither --profile nor -r nor REDIS_URL names a server.
default = "local"

# What holds for every profile that does not say otherwise; the keys of how a server is
# watched also hold for one that -r or REDIS_URL names.
[defaults]
interval = "1s"                     # between polls; a number is seconds

[defaults.thresholds]               # when a queue is called by its trouble
stalled = "1m"                      # messages ready, and none received for so long
growing = "2m"                      # more arrivals than deletes for so long,
growing_messages = 20               #   by so many messages,
growing_share = 0.02                #   and by more than this part of what arrived
aged = "10m"                        # the first ready message waits for so long
poison_rc = 5                       # a message was received so often

[profiles.local]
host = "localhost"                  # this and the next two are what they are by default
port = 6379
db = 0

[profiles.socket]
socket = "/run/redis/redis.sock"
namespaces = ["rsmq", "jobs"]       # the dashboard shows the queues of both

[profiles.with-lists]
host = "localhost"
lists = ["queue:*", "mail"]         # Redis Lists that are queues: keys and patterns of keys
lists_processing = "{queue}:processing"  # where consumers keep what they work on, and
lists_leases = "{queue}:leases"     #   the zset of their deadlines; {queue} is the queue's key,
                                    #   {name} what the * of the pattern stands for
lists_take = "right"                # the end that consumers take from; or "left"
lists_age = "created"               # where the JSON of an item tells when it was made

[profiles.staging]
url = "redis://staging.example:6379/0"
user = "oncall"                     # an ACL user
password_env = "STAGING_REDIS_PASSWORD"

[profiles.production]
host = "redis.example"
user = "oncall"
# The first line that a command prints. A text is split into words as a shell would, but no
# shell is run: for a pipe write ["sh", "-c", "…"]. It gets no terminal and ten seconds.
password_command = "pass show redis/production"
tls = true
tls_ca = "~/certificates/ca.pem"    # paths start in the folder of this file
tls_cert = "~/certificates/oncall.pem"
tls_key = "~/certificates/oncall.key"
tls_verify = "full"                 # "chain": any host name will do; "none": anybody will do
read_only = true                    # nothing can be changed from here
colour = "red"                      # so that nobody takes it for another one; or "#ff5f5f"
thresholds = { stalled = "30s", poison_rc = 3 }

[profiles.watched-by-sentinels]
sentinels = ["one.example:26379", "two.example:26379", "three.example:26379"]
sentinel_service = "mymaster"       # the NAME of their `sentinel monitor NAME …`
# The first line of a file. One that others may read is refused: `chmod o= FILE`. A group may
# read it; so may others where it is mounted read-only, as secrets are into containers.
password_file = "/run/secrets/redis-password"
# sentinel_user, sentinel_password_env (_file, _command) and sentinel_tls are their own.

[profiles.cluster]
cluster = ["one.example:6379", "two.example:6379"]  # some of its nodes; or true, beside host or url
namespace = "{rsmq}"                # on a cluster it needs a hash tag
"""
