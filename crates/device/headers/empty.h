// What this header declares is built into the compiler, or is for the host.
#pragma once
