// Memory of this process, of which a thread may be given none for a while.
#pragma once

// So many of this thread's next allocations fail.
extern thread_local int allocations_to_refuse;
