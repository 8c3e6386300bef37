"""The example of a configuration file that `rsmq-tui profiles example` prints."""

EXAMPLE = """\
# The servers that rsmq-tui knows by name: `rsmq-tui --profile NAME`.
# `rsmq-tui profiles` says where this file belongs, and lists what is in it.
# It needs no secrets: it says where a password is kept, not what it is.

# The profile that is used when neither --profile nor -r nor REDIS_URL names a server.
default = "local"

# Defaults for every profile. The keys about watching also apply to a server that -r or
# REDIS_URL names.
[defaults]
interval = "1s"                     # between polls; a number is seconds

[defaults.thresholds]               # when a queue gets a verdict
stalled = "1m"                      # messages ready, and none received for this long
leaking = "1m"                      # leases of a list expired, and not returned for this long
growing = "2m"                      # more arrivals than deletes for this long,
growing_messages = 20               #   by this many messages,
growing_share = 0.02                #   and by more than this fraction of the arrivals
aged = "10m"                        # the first ready message has been due for this long
poison_rc = 5                       # a message was received this often
clear = "30s"                       # a verdict ends when its condition has been over for this long

[profiles.local]
host = "localhost"                  # this and the next two are the defaults
port = 6379
db = 0

[profiles.socket]
socket = "/run/redis/redis.sock"
namespaces = ["rsmq", "jobs"]       # the dashboard shows the queues of both

[profiles.with-lists]
host = "localhost"
lists = ["queue:*", "mail"]         # Redis Lists that are queues: keys and patterns of keys
lists_processing = "{queue}:processing"  # where consumers keep items in processing, and
lists_leases = "{queue}:leases"     #   the zset of their deadlines; {queue} is the queue's key,
                                    #   {name} the part that matches the *
lists_take = "right"                # the end that consumers take from; or "left"
lists_age = "created"               # the JSON field with the time of an item

[profiles.staging]
url = "redis://staging.example:6379/0"
user = "oncall"                     # an ACL user
password_env = "STAGING_REDIS_PASSWORD"

[profiles.production]
host = "redis.example"
user = "oncall"
# The first line that a command prints. A string is split into words as in a shell, but no
# shell runs: for a pipe, write ["sh", "-c", "…"]. It has no terminal and ten seconds.
password_command = "pass show redis/production"
tls = true
tls_ca = "~/certificates/ca.pem"    # paths start in the folder of this file
tls_cert = "~/certificates/oncall.pem"
tls_key = "~/certificates/oncall.key"
tls_verify = "full"                 # "chain": any host name; "none": no check
read_only = true                    # nothing can be changed from here
colour = "red"                      # marks the server on the screen; or "#ff5f5f"
thresholds = { stalled = "30s", poison_rc = 3 }

[profiles.watched-by-sentinels]
sentinels = ["one.example:26379", "two.example:26379", "three.example:26379"]
sentinel_service = "mymaster"       # the NAME of their `sentinel monitor NAME …`
# The first line of a file. It is refused if other users can read it: `chmod o= FILE`. A group
# may read it, and so may others on a read-only mount, such as the secrets of containers.
password_file = "/run/secrets/redis-password"
# sentinel_user, sentinel_password_env (_file, _command) and sentinel_tls are separate keys.

[profiles.cluster]
cluster = ["one.example:6379", "two.example:6379"]  # some of its nodes; or true, beside host or url
namespace = "{rsmq}"                # on a cluster it needs a hash tag
"""
