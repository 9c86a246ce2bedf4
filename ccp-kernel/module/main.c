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

/* Those that are registered: anole_ccp, then the named ones. */
static struct tcp_congestion_ops ccp_ops[1 + MAX_ALGORITHMS];
static unsigned int n_ops;

static bool fits(const char *name)
{
	return *name && strlen(CCP_PREFIX) + strlen(name) < TCP_CA_NAME_MAX;
}

static int register_name(const char *name)
{
	struct tcp_congestion_ops *ops = &ccp_ops[n_ops];
	int error;

	*ops = ccp_template;
	snprintf(ops->name, sizeof(ops->name), CCP_PREFIX "%s", name);
	error = tcp_register_congestion_control(ops);
	if (!error)
		n_ops++;
	return error;
}

static int __init ccp_module_init(void)
{
	unsigned int n;
	int error;

	for (n = 0; n < n_algorithms; n++) {
		if (!fits(algorithms[n])) {
			pr_err("algorithms=%s: a name has 1 to %zu characters\n", algorithms[n],
			       TCP_CA_NAME_MAX - sizeof(CCP_PREFIX));
			return -EINVAL;
		}
	}
	error = ccp_netlink_init();
	if (error)
		return error;
	error = register_name("ccp");
	if (error) {
		ccp_netlink_exit();
		ccp_flows_exit();
		return error;
	}
	/* Sockets may use the module from now on: it may fail no more. */
	for (n = 0; n < n_algorithms; n++)
		if (register_name(algorithms[n]))
			pr_warn("algorithms=%s: left out, the name is taken\n", algorithms[n]);
	return 0;
}

static void __exit ccp_module_exit(void)
{
	while (n_ops)
		tcp_unregister_congestion_control(&ccp_ops[--n_ops]);
	ccp_netlink_exit();
	ccp_flows_exit();
}

module_init(ccp_module_init);
module_exit(ccp_module_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("TCP congestion control by fold programs and an agent in user space (CCP)");
MODULE_AUTHOR("anole-ccp maintainers");
