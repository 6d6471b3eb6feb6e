/* Takes part in a round with the C library: `answer KEY VALUE RECORD ROSTER ROOT_KEY`.
 *
 * Reads a line with a request (shuffledp.h) on standard input and writes the body to POST as a
 * line; then reads the gateway's answer, the receipt, as a line. KEY has the 32 bytes of the
 * device's key. RECORD is made before anything is sent, and must not exist: one answer a round. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shuffledp.h"

typedef struct { uint8_t *bytes; size_t size; } text;

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static text read_file(const char *name, FILE *from) {
    text all = {malloc(1 << 24), 0};
    if (from == NULL || all.bytes == NULL) fail(name);
    all.size = fread(all.bytes, 1, 1 << 24, from);
    fclose(from);
    return all;
}

static text read_line(void) {
    char *line = NULL;
    size_t room = 0;
    ssize_t size = getline(&line, &room, stdin);
    if (size < 1) fail("standard input");
    return (text){(uint8_t *)line, (size_t)size - (line[size - 1] == '\n')};
}

/* Ends the program with the library's words if it refused. */
static void must(shuffledp_result *result) {
    size_t size;
    const uint8_t *words = shuffledp_part(result, 0, &size);
    if (shuffledp_status(result) == 0) return;
    fprintf(stderr, "%.*s\n", (int)size, (const char *)words);
    exit(1);
}

int main(int count, char **given) {
    if (count != 6) return 2;
    text request = read_line(), key = read_file(given[1], fopen(given[1], "rb"));
    uint64_t value = strtoull(given[2], NULL, 10);
    shuffledp_result *answer = shuffledp_answer(request.bytes, request.size, key.bytes, key.size, value, -1);
    explicit_bzero(key.bytes, key.size);
    must(answer);
    text body, record;
    body.bytes = (uint8_t *)shuffledp_part(answer, 0, &body.size);
    record.bytes = (uint8_t *)shuffledp_part(answer, 1, &record.size);
    int file = open(given[3], O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file < 0 || write(file, record.bytes, record.size) != (ssize_t)record.size || fsync(file)) fail(given[3]);
    printf("%.*s\n", (int)body.size, (char *)body.bytes);
    fflush(stdout);
    text receipt = read_line(), roster = read_file(given[4], fopen(given[4], "rb"));
    shuffledp_result *checked = shuffledp_check_receipt(roster.bytes, roster.size,
        (const uint8_t *)given[5], strlen(given[5]), record.bytes, record.size, receipt.bytes, receipt.size);
    must(checked);
    shuffledp_free(checked);
    shuffledp_free(answer);
    return 0;
}
