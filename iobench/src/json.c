#include "json.h"

#include <inttypes.h>
#include <math.h>

static void quoted(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if (*at < 0x20 || *at >= 0x7f)
            fprintf(out, "\\u%04x", *at);
        else
            fputc(*at, out);
    }
    fputc('"', out);
}

static void begin(struct json *json, const char *name) {
    if (json->follows)
        fputc(',', json->out);
    if (json->depth > 0)
        fprintf(json->out, "\n%*s", 2 * json->depth, "");
    if (name != NULL) {
        quoted(json->out, name);
        fputs(": ", json->out);
    }
    json->follows = true;
}

void json_open(struct json *json, const char *name, char bracket) {
    begin(json, name);
    fputc(bracket, json->out);
    json->depth++;
    json->follows = false;
}

void json_close(struct json *json, char bracket) {
    json->depth--;
    if (json->follows)
        fprintf(json->out, "\n%*s", 2 * json->depth, "");
    fputc(bracket, json->out);
    json->follows = true;
    if (json->depth == 0)
        fputc('\n', json->out);
}

void json_text(struct json *json, const char *name, const char *text) {
    begin(json, name);
    quoted(json->out, text);
}

void json_whole(struct json *json, const char *name, int64_t value) {
    begin(json, name);
    fprintf(json->out, "%" PRId64, value);
}

void json_real(struct json *json, const char *name, double value) {
    begin(json, name);
    if (isfinite(value))
        fprintf(json->out, "%.9g", value);
    else
        fputs("null", json->out);
}

void json_bool(struct json *json, const char *name, bool value) {
    begin(json, name);
    fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *name) {
    begin(json, name);
    fputs("null", json->out);
}

void json_row(struct json *json, const char *name, const int64_t *values, int64_t count) {
    begin(json, name);
    fputc('[', json->out);
    for (int64_t i = 0; i < count; i++)
        fprintf(json->out, "%s%" PRId64, i > 0 ? ", " : "", values[i]);
    fputc(']', json->out);
}
