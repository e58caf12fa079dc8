"""What a type checker must refuse: every line with a mark, and no other."""

import numpy as np

import dptopk as dp

H = dp.Histogram([900, 3, 700])
session = dp.Session(k_star=9, calls=2, epsilon=1.0, delta=1e-6)

dp.peel("nonsense", k=2, epsilon=1.0)  # refused
dp.peel(["a", "b"], k=2, epsilon=1.0)  # refused
dp.peel(H, k=2, epsilon=1.0, rng=7)  # refused
dp.peel(H, k=2, epsilon="1")  # refused
dp.peel(H, k=2)  # refused
dp.peel(H, k=2, epsilon=1.0, epsilon_step=0.5)  # refused
dp.peel(H, k=2.5, epsilon=1.0)  # refused
dp.peel(H, 2, epsilon=1.0)  # refused
dp.peel(H, k=2, epsilon=1.0, method="zcpd")  # refused
dp.Histogram("nonsense")  # refused
dp.limited_domain(H, k=2, epsilon=1.0)  # refused
dp.limited_domain(H, k=2, epsilon=1.0, delta=1e-6, k_bar="privat")  # refused
dp.limited_domain(H, k=2, epsilon=1.0, delta=1e-6, kbar=5)  # refused
dp.limited_domain_laplace(H, k=2, epsilon=1.0, delta=1e-6, k_bar="private")  # refused
dp.permute_and_flip(H, k=2, epsilon=1.0, method="zcdp")  # refused
dp.oneshot(H, k=2, epsilon=1.0, noise="lapalce")  # refused
dp.oneshot(H, k=2, epsilon=1.0, method="aproximate")  # refused
dp.noisy_max(H, epsilon=1.0, noise="gaussian")  # refused
dp.joint(H, k=2, epsilon=1.0, output="list")  # refused
dp.canonical(H, k=2, epsilon=1.0, output="set")  # refused
dp.top_stable(H, k=2, epsilon=1.0, delta=1e-6, bound="papre")  # refused
dp.top_stable(H, k="2-5", epsilon=1.0, delta=1e-6)  # refused
dp.restricted("peal", H, k=2, epsilon=1.0, delta=1e-6)  # refused
dp.restricted("peel", H, k=2, epsilon=1.0, delta=1e-6, options={"metod": "best"})  # refused
dp.restricted_gumbel(H, k=2, epsilon=1.0, delta=1e-6, kbar=5)  # refused
dp.restricted_oneshot(H, k=2, epsilon=1.0, delta=1e-6, noise="uniform")  # refused
dp.restricted_normal(H, k=2, epsilon=1.0, delta=1e-6, max_items=3)  # refused
dp.noisy_counts(H, H, epsilon=1.0)  # refused
dp.noisy_topk(np.array([1.0, 2.0]), 1, scale=1.0, noise="gumbell")  # refused
dp.stable_queries([("ant", 250)], stop="unstabel", epsilon=1.0, delta=1e-6)  # refused
dp.Session(k_star=9, calls=2, epsilon=1.0, delta=1e-6, method="adptive")  # refused
session.limted_domain(H, k=2)  # refused
session.gamma(H, k=2, epsilon=1.0)  # refused
session.limited_domain(H, k="all")  # refused
dp.accounting.gaussian_sigma(1.0, 1e-6)  # refused
dp.accounting.total_epsilon(0.1, 10, 1e-6, method="zcpd")  # refused
dp.Histograms([[9, 1], [2, 8]])  # refused
dp.peel({"FR": H}, k=2, epsilon=1.0)  # refused
dp.noisy_counts(H, dp.Histograms([[9]], max_groups_per_user=1), epsilon=1.0)  # refused
dp.nonsense  # refused
dp.Histogram.from_sql(None, "visits", user="who", item="page", dialect="mysql")  # refused
dp.Histogram.from_sql(None, "visits", user="who")  # refused
dp.argtopk([1, 2], m=1)  # refused
dp.argtopk([1, 2], 1, nan="first")  # refused
dp.topk([1, 2], 1, -1, True, True, "last")  # refused
dp.topk([1, 2], 1.0)  # refused
dp.plan(k=2, epsilon=1.0, domain="public")  # refused
dp.zipf(0.8, 100, 20)  # refused
dp.plot_accuracy([], y="recal")  # refused
dp.plot_costs([1], methods=["zcpd"])  # refused
dp.peel(H, k=2, epsilon=1.0).to_html(title=5)  # refused
