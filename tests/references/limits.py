"""Which workloads and servers a limit is for, one pair at a time."""


def is_below(problem, limit, workload):
    """Whether a workload is below the limit's node."""
    tenant = int(problem.workload_tenant[workload])
    if limit.scope == "workload":
        return workload == limit.node
    if limit.scope == "tenant":
        return tenant == limit.node
    if limit.scope == "lend":
        return tenant != limit.node
    group = int(problem.tenant_group[tenant])
    while group >= 0:
        if group == limit.node:
            return True
        group = int(problem.group_parent[group])
    return False


def matches(problem, limit, row):
    """Whether the servers of a row have the labels that a limit names."""
    if limit.scope == "lend" and problem.contributed_by[row] != limit.node:
        return False
    labels = problem.server_labels[row]
    return all(labels.get(label) in values for label, values in limit.where.items())
