// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module: its names among TCP's algorithms, its beginning and end. Its end waits until no socket uses it:
 * each holds a reference.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include "ccp.h"

#define MAX_ALGORITHMS 16
static char *algorithms[MAX_ALGORITHMS];
static unsigned int n_algorithms;
module_param_array(algorithms, charp, &n_algorithms, 0444);
MODULE_PARM_DESC(algorithms,
		 "algorithms of the agent that get a name of their own, anole_NAME: NAME,NAME...");

/* anole_ccp, then the named ones. */
static struct tcp_congestion_ops ccp_ops[1 + MAX_ALGORITHMS];

static void unregister(unsigned int n)
{
	while (n)
		tcp_unregister_congestion_control(&ccp_ops[--n]);
}

static int register_one(struct tcp_congestion_ops *ops, const char *name)
{
	*ops = ccp_template;
	if (!*name || strlen(CCP_PREFIX) + strlen(name) >= sizeof(ops->name)) {
		pr_err("algorithms=%s: a name has 1 to %zu characters\n", name,
		       sizeof(ops->name) - sizeof(CCP_PREFIX));
		return -EINVAL;
	}
	snprintf(ops->name, sizeof(ops->name), CCP_PREFIX "%s", name);
	return tcp_register_congestion_control(ops);
}

static int __init ccp_module_init(void)
{
	unsigned int n;
	int error = ccp_netlink_init();

	if (error)
		return error;
	for (n = 0; !error && n < 1 + n_algorithms; n++)
		error = register_one(&ccp_ops[n], n ? algorithms[n - 1] : "ccp");
	if (!error)
		return 0;
	unregister(n - 1);
	ccp_netlink_exit();
	ccp_flows_exit();
	return error;
}

static void __exit ccp_module_exit(void)
{
	unregister(1 + n_algorithms);
	ccp_netlink_exit();
	ccp_flows_exit();
}

module_init(ccp_module_init);
module_exit(ccp_module_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("TCP congestion control by fold programs and an agent in user space (CCP)");
MODULE_AUTHOR("anole-ccp maintainers");
