"""Plane truss by finite elements: assembly in place, supports, member forces, mass."""
import numpy as np


def assemble(nodes, members, areas, E):
    ndof = 2 * len(nodes)
    K = np.zeros((ndof, ndof))
    for (i, j), A in zip(members, areas):
        d = nodes[j] - nodes[i]
        L = np.sqrt(d[0]**2 + d[1]**2)
        c, s = d / L
        ke = E * A / L * np.array([[c*c, c*s, -c*c, -c*s],
                                   [c*s, s*s, -c*s, -s*s],
                                   [-c*c, -c*s, c*c, c*s],
                                   [-c*s, -s*s, c*s, s*s]])
        dofs = [2*i, 2*i + 1, 2*j, 2*j + 1]
        K[np.ix_(dofs, dofs)] += ke
    return K


def solve(nodes, members, areas, E, loads, fixed):
    K = assemble(nodes, members, areas, E)
    free = np.setdiff1d(np.arange(len(loads)), fixed)
    u = np.zeros(len(loads))
    u[free] = np.linalg.solve(K[np.ix_(free, free)], loads[free])
    reactions = K[fixed] @ u
    return u, reactions


def member_forces(nodes, members, areas, E, loads, fixed):
    u, _ = solve(nodes, members, areas, E, loads, fixed)
    forces = np.zeros(len(members))
    for m, (i, j) in enumerate(members):
        d = nodes[j] - nodes[i]
        L = np.linalg.norm(d)
        stretch = np.dot(u[2*j:2*j + 2] - u[2*i:2*i + 2], d) / L
        forces[m] = E * areas[m] * stretch / L
    return forces


def compliance(areas, nodes, members, E, loads, fixed):
    u, _ = solve(nodes, members, areas, E, loads, fixed)
    return loads @ u
