"""Where replicas should go: a problem, a plan that is proven, and the waves in which to carry it out.

The planner raises replication factors with the fewest moves: it adds what is missing and moves nothing else. Among the
plans with the fewest moves it wants, in this order, each partition spread over as many racks as it can be, the fullest
broker as low as it can be, preferred leaders even, and each topic even. Beside every figure of a plan stands a bound
that no plan can beat. Equal input gives the same plan, byte for byte: there is no randomness and no clock.

N partitions, F replicas each, B brokers in R racks, T kinds of partitions.

The chain (`solver.local`)
1. Kinds (`solver.aggregate`). Partitions with replicas in the same racks and as many missing are interchangeable, so
   they are counted as one kind: a million partitions become a few dozen kinds. One pass over N F.
2. Quotas (`solver.quotas`). First the best spread over racks for each kind: what is forced, and a number of racks to
   choose among equals. Choosing is a transportation problem of kinds x racks (`solver.transport`). Its column sums form
   an integral base polytope, on which one vector is best for all separable convex costs, the decreasingly minimal one
   (Frank and Murota, 2018). Pushes along residual paths reach it, and the cut at the end is the bound (max-flow
   min-cut). A rack's replicas go to its brokers by `water_filling`. The cost depends on T, R and B, not on N. A table
   of more than 200,000 cells is pooled: one quota for all kinds, and conflicts are resolved afterwards.
3. Deal (`solver.expand`). McNaughton's wrap-around rule (1959) deals the quotas of racks to the partitions of a kind,
   so that no partition meets a rack twice. Strides of the golden ratio deal the quotas of brokers within a rack, so
   that neighbours land apart. Linear in N F: no partition depends on another one.
4. Mend (`solver.conflict_resolution`). A partition may be dealt a broker that it stands on already. Two partitions of
   a rack swap what they were dealt, which keeps every quota: at most 96 vectorised rounds over the conflicts, then a
   bounded search. Where no swap helps, a replica moves to a free broker and `solver.rebalance` exchanges replicas along
   shortest paths. Sets with the best spread are the bases of a matroid and their sum is M-convex, so the brokers that
   no path leaves prove the bound (Murota, Discrete Convex Analysis, 2003).
   Then each topic (`solver.topic_replicas`): replicas of different topics swap brokers until no topic has more on a
   broker than its bound, or one or two more. `topic_bounds` and `solver.racks` have the bounds, `topic_cells` counts.
   Vectorised rounds over the replicas that are too much, then a bounded search.
5. Disks (`solver.disk_capacity`). No broker gets more bytes than its disks have free (KIP-827): swaps of large replicas
   for small ones first, then moves. With `by_bytes`, the same swaps make bytes even. The cost is that of the brokers
   over their limit.
6. Leaders (`leaders.balance`). Replica lists are reordered so that each broker leads its share: a flow from partitions
   to brokers. Vectorised rounds, each linear in N F, move almost all of it. Shortest augmenting paths over a B x B
   table (Edmonds and Karp, 1972) move the rest; the brokers that no path leaves are the cut and prove the bound.
7. Leaders of topics (`leaders.topic_leaders`, `leaders.topic_paths`). Two partitions trade leaderships, as many at once
   as fit. The rest goes along augmenting paths of the flow partition -> (topic, broker) -> broker. No broker's total
   changes. At most 6 passes over the partitions for each of three levels, and searches with a bound on their work.
8. Waves (`solver.waves`). The most exposed partitions go first. Each wave takes, in that order, what fits
   `wave_limits`. One sort of N, and for each wave a pass over what it is offered.

Around the chain
- `weight` makes "even" mean a fair share for brokers of different capacity: D'Hondt's rule on top of what brokers hold.
- `solver.relocate` answers the questions that move replicas (`relocation`): it releases the fewest replicas that have
  to leave, and the chain places them anew. `solver.relief` chooses those with enough bytes for a broker whose volume
  fills: every combination of a few, else subset sum by greed with swaps. Lowering imbalance exchanges replicas by
  `solver.rebalance`, under a budget.
- `spark` plans tables too large for one process: it counts kinds in each block, solves the quotas once for the whole,
  divides them among the blocks to the last replica (Gale, 1957, and Ryser, 1957), and each block runs the chain from 3.
- `verify` checks every plan before it is used. It works on flat lists instead of matrices, shares no code with the
  planner, and is linear in replicas but for sorts. For Spark, checksums of the input and of the plan have to agree.
- `files` reads the input, and writes the plan, its summary and its report.

`problem`, `columns`, `lists`, `arrow` and `model` hold the data; they decide nothing.
"""
