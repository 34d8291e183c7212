"""How the chart is used in the tests: a file of values for each way."""

from tests.unit.deploy.chart import Thing, deployments, rendered, the
from tests.unit.deploy.environment import COMPONENTS

DIGEST = "sha256:" + "0123456789abcdef" * 4
AUTHORITY = {"name": "authority", "configMap": {"name": "our-certificates"}}
WAYS: dict[str, Thing] = {
    "as it is": {},
    "behind an ingress": {
        "hosts": ["shares.example.org", "shares.example.com"],
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "annotations": {"cert-manager.io/cluster-issuer": "letsencrypt"},
            "tlsSecretName": "shares-tls",
        },
    },
    "from a registry of one's own": {
        "image": {"repository": "registry.example.org:5000/a/allocator", "digest": DIGEST},
        "imagePullSecrets": [{"name": "registry"}],
    },
    "with OpenID Connect": {
        "configuration": {
            "ALLOCATOR_OIDC_ISSUER": "https://login.example.org",
            "ALLOCATOR_OIDC_CLIENT_ID": "allocator",
            "ALLOCATOR_OIDC_OPERATOR_GROUP": "operators",
            "ALLOCATOR_OIDC_CLIENT_SECRET_FILE": "/etc/oidc/secret",
        },
        "pods": {
            "volumes": [{"name": "oidc", "secret": {"secretName": "oidc"}}],
            "volumeMounts": [{"name": "oidc", "mountPath": "/etc/oidc", "readOnly": True}],
        },
    },
    "one of each, no backtests": {
        "processes": {
            **{name: {"replicas": 1} for name in COMPONENTS},
            "backtests": {"replicas": 0},
        }
    },
    "on nodes of one's own": {
        "pods": {
            "nodeSelector": {"pool": "services"},
            "tolerations": [{"key": "services", "operator": "Exists", "effect": "NoSchedule"}],
            "priorityClassName": "high",
            "annotations": {"linkerd.io/inject": "enabled"},
            "labels": {"team": "platform"},
            "extraEnv": [{"name": "SSL_CERT_FILE", "value": "/etc/authority/ca.crt"}],
            "volumes": [AUTHORITY],
            "volumeMounts": [{"name": "authority", "mountPath": "/etc/authority"}],
        },
        "processes": {
            "backtests": {
                "nodeSelector": {"pool": "batch"},
                "tolerations": [],
                "topologySpreadConstraints": [],
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "kubernetes.io/hostname",
                                "labelSelector": {
                                    "matchLabels": {"app.kubernetes.io/component": "worker"}
                                },
                            }
                        ]
                    }
                },
            }
        },
    },
    "watched and closed": {
        "serviceAccount": {"create": True, "annotations": {"example.org/role": "allocator"}},
        "networkPolicy": {"enabled": True, "from": [{"namespaceSelector": {}}]},
        "service": {"type": "LoadBalancer", "port": 8080, "annotations": {"internal": "true"}},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    },
}


def objects(way: str = "as it is") -> list[Thing]:
    return rendered(WAYS[way])


def pods_of(things: list[Thing]) -> list[Thing]:
    """What has a pod's template."""
    return [*deployments(things).values(), the(things, "Job")]
