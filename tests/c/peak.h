/* Peak memory of a process. Included by programs; not a program. */
#ifndef PEAK_H
#define PEAK_H

#include <stdio.h>
#include <sys/types.h>

/* Returns the peak memory of a process in KiB; zero if the process is gone. */
static long peak_of(pid_t process)
{
    char name[64], line[256];
    long peak = 0;
    snprintf(name, sizeof name, "/proc/%d/status", (int) process);
    FILE *status = fopen(name, "r");
    while (NULL != status && NULL != fgets(line, sizeof line, status)) {
        sscanf(line, "VmHWM: %ld", &peak);
    }
    if (NULL != status) {
        fclose(status);
    }
    return peak;
}

#endif
